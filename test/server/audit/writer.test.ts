import {
  appendFileSync,
  chmodSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { auditJson } from '../../../src/server/audit/line-json.ts';
import {
  eventsOf,
  filesOf,
  linesOf,
  newTrail,
  numbered,
  numbersOf,
  openWriter,
  samples,
  verified,
} from './audit-samples.ts';
import { chainEvents } from './audit-schema.ts';

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index);

describe('the lines of a trail', () => {
  it('are one JSON object each, of the schema, in the order of what happened [audit.schema]', () => {
    const path = newTrail();
    const writer = openWriter(path);
    expect(writer.append(samples.map((event) => auditJson('a task', 'run-1', event)))).toBeNull();
    expect(writer.end()).toBeNull();
    const lines = linesOf(path);
    expect(lines.map(({ event }) => event)).toEqual([
      'chain.started',
      ...samples.map(({ event }) => event),
      'chain.ended',
    ]);
    const own = lines.slice(1, -1).map(({ v, chain, seq, ts, task, instance, prev, hash, ...event }) => event);
    expect(own).toEqual(samples);
    expect(new Set(lines.slice(1, -1).map(({ v, task, instance }) => `${v} ${task} ${instance}`))).toEqual(
      new Set(['2 a task run-1']),
    );
    expect(lines.map(({ seq }) => seq)).toEqual(range(0, lines.length));
  });

  it('each have the hash of the one before [audit.chain]', () => {
    const path = newTrail();
    const writer = openWriter(path);
    for (const number of range(0, 5)) writer.append([numbered(number)]);
    writer.end();
    const lines = linesOf(path);
    expect(lines[0]).toMatchObject({ event: 'chain.started', pid: process.pid, prev: '0'.repeat(64) });
    for (const [index, { prev }] of lines.slice(1).entries()) expect(prev).toBe(lines[index]?.hash);
    expect(new Set(lines.map(({ hash }) => hash)).size).toBe(lines.length);
    expect(verified(path)).toMatchObject({ problem: null, lines: 7, chains: [{ ended: true, from: 0, lines: 7 }] });
  });

  it('keep text of others inside of them', () => {
    const path = newTrail();
    const writer = openWriter(path);
    const tool = 'evil"}\n{"v":2,"event":"guest.ended"\u2028\ud800';
    writer.append([auditJson(null, 'run-1', { ...samples[9], tool_name: tool })]);
    writer.end();
    expect(linesOf(path).map((line) => line.tool_name)).toEqual([undefined, tool, undefined]);
    expect(verified(path).problem).toBeNull();
  });

  it('are cut where names and lists have no end', () => {
    const path = newTrail();
    const writer = openWriter(path);
    const exclusions = Array.from({ length: 5_000 }, (_, index) => ({
      server_id: `s${index}`,
      tool_name: null,
      reason: 'not_allowed',
      layer: 'task' as const,
      detail: 'x'.repeat(5_000),
    }));
    writer.append([auditJson(null, 'run-1', { ...samples[2], exclusions })]);
    writer.append([auditJson(null, 'run-1', { ...samples[4], request_id: 'r'.repeat(5_000_000) })]);
    writer.end();
    expect(linesOf(path).filter(({ truncated }) => truncated === true)).toHaveLength(2);
    expect(statSync(path).size).toBeLessThan(100_000);
  });

  it('go to a file that is made for its owner alone, or that is there already', () => {
    const [fresh, old] = [newTrail(), newTrail()];
    writeFileSync(old, '{"v":1,"an":"older line"}\n');
    chmodSync(old, 0o640);
    for (const path of [fresh, old]) openWriter(path).end();
    expect(statSync(fresh).mode & 0o777).toBe(0o600);
    expect(statSync(old).mode & 0o777).toBe(0o640);
    expect(readFileSync(old, 'utf8')).toMatch(/^\{"v":1,"an":"older line"\}\n\{"v":2,.*\}\n\{"v":2,.*\}\n$/);
    expect(verified(old)).toMatchObject({ problem: null, unchained: 1 });
  });

  it('of several writers make one chain each', () => {
    const path = newTrail();
    const writers = [openWriter(path), openWriter(path), openWriter(path)];
    for (const number of range(0, 20)) {
      for (const [index, writer] of writers.entries()) writer.append([numbered(number, `run-${index}`)]);
    }
    for (const writer of writers) writer.end();
    expect(verified(path)).toMatchObject({
      problem: null,
      lines: 66,
      chains: writers.map(() => ({ lines: 22, ended: true })),
    });
    expect(numbersOf(path)).toEqual(range(0, 20).flatMap((number) => [number, number, number]));
  });
});

describe('rotation', () => {
  it('moves a full file aside, oldest first, and the chain goes on [audit.rotation]', () => {
    const path = newTrail();
    const writer = openWriter(path, { maxBytes: 4_096, keep: 100 });
    for (const number of range(0, 100)) writer.append([numbered(number)]);
    writer.end();
    const files = filesOf(path);
    expect(files.length).toBeGreaterThan(5);
    expect(files.map((file) => file.slice(path.length))).toEqual([...range(1, files.length).map((n) => `.${n}`), '']);
    for (const file of files) {
      expect(statSync(file).size).toBeLessThanOrEqual(4_096);
      expect(statSync(file).mode & 0o777).toBe(0o600);
    }
    expect(numbersOf(path)).toEqual(range(0, 100));
    expect(eventsOf(path).filter((event) => event === 'chain.rotated')).toHaveLength(files.length - 1);
    expect(verified(path)).toMatchObject({ problem: null, chains: [{ from: 0, ended: true }] });
  });

  it('keeps so many files, and the rest still verifies [audit.rotation]', () => {
    const path = newTrail();
    const writer = openWriter(path, { maxBytes: 4_096, keep: 2 });
    for (const number of range(0, 100)) writer.append([numbered(number)]);
    writer.end();
    expect(filesOf(path)).toHaveLength(3);
    const numbers = numbersOf(path);
    expect(numbers).toEqual(range(numbers[0] ?? 0, 100));
    const { problem, chains } = verified(path);
    expect([problem, chains.length, (chains[0]?.from ?? 0) > 0]).toEqual([null, 1, true]);
  });

  it('breaks many lines that come at once into files of that size, and no line in two [audit.rotation]', () => {
    const path = newTrail();
    const writer = openWriter(path, { maxBytes: 4_096, keep: 1_000 });
    writer.append(range(0, 600).map((number) => numbered(number)));
    writer.end();
    expect(filesOf(path).length).toBeGreaterThan(20);
    // The first line of a file says how the chain came there, and is not counted beforehand.
    for (const file of filesOf(path)) expect(statSync(file).size).toBeLessThan(4_096 + 512);
    expect(numbersOf(path)).toEqual(range(0, 600));
    expect(verified(path).problem).toBeNull();
  });

  it('is left out for one line that is larger than a file may be [audit.rotation]', () => {
    const path = newTrail();
    const writer = openWriter(path, { maxBytes: 1, keep: 1_000 });
    writer.append(range(0, 5).map((number) => numbered(number)));
    writer.end();
    expect(numbersOf(path)).toEqual(range(0, 5));
    expect(verified(path).problem).toBeNull();
  });

  it('by one of several writers is followed by the others [audit.rotation]', () => {
    const path = newTrail();
    const [small, large] = [
      openWriter(path, { maxBytes: 4_096, keep: 100 }),
      openWriter(path, { maxBytes: 8_192, keep: 100 }),
    ];
    for (const number of range(0, 60)) {
      small.append([numbered(number, 'small')]);
      large.append([numbered(number, 'large')]);
    }
    for (const writer of [small, large]) writer.end();
    expect(numbersOf(path)).toEqual(range(0, 60).flatMap((number) => [number, number]));
    expect(verified(path)).toMatchObject({ problem: null, chains: [{ ended: true }, { ended: true }] });
  });

  it('waits while another process is at it, and goes on when that one has died [audit.rotation]', () => {
    const path = newTrail();
    const writer = openWriter(path, { maxBytes: 4_096, keep: 100 });
    writeFileSync(`${path}.1`, ''); // reserved, not used yet
    for (const number of range(0, 30)) writer.append([numbered(number)]);
    expect(filesOf(path)).toEqual([`${path}.1`, path]);
    expect(statSync(path).size).toBeGreaterThan(4_096);
    const longAgo = new Date(Date.now() - 60_000);
    utimesSync(`${path}.1`, longAgo, longAgo);
    writer.append([numbered(30)]);
    writer.end();
    expect(filesOf(path)).toEqual([`${path}.1`, `${path}.2`, path]);
    expect(verified(path).problem).toBeNull();
  });

  it('is left out where the file may not be moved, and nothing is lost [audit.rotation]', () => {
    const path = join(newTrail(), '..', 'n'.repeat(254)); // no longer name is possible
    const writer = openWriter(path, { maxBytes: 4_096 });
    for (const number of range(0, 30)) expect(writer.append([numbered(number)])).toBeNull();
    writer.end();
    expect(filesOf(path)).toEqual([path]);
    expect(numbersOf(path)).toEqual(range(0, 30));
  });

  it('by another program is noticed [audit.rotation]', () => {
    const path = newTrail();
    const writer = openWriter(path);
    writer.append([numbered(0)]);
    renameSync(path, `${path}.1`);
    writer.append([numbered(1)]);
    writer.end();
    expect(numbersOf(path)).toEqual([0, 1]);
    expect(filesOf(path)).toHaveLength(2);
    expect(verified(path).problem).toBeNull();
  });
});

describe('half a line at the end', () => {
  /** A trail whose writer died in the middle of a line. */
  function torn(bytes = 40): string {
    const path = newTrail();
    const writer = openWriter(path);
    writer.append(range(0, 3).map((number) => numbered(number)));
    writer.append([numbered(3)]);
    truncateSync(path, statSync(path).size - bytes);
    return path;
  }

  it('is repaired and marked when the file is opened again', () => {
    const path = torn();
    expect(verified(path).problem).toMatchObject({ kind: 'cut', file: path, line: 5 });
    const half = readFileSync(path, 'utf8').split('\n').at(-1) ?? '';
    const writer = openWriter(path);
    writer.append([numbered(4)]);
    writer.end();
    const repaired = linesOf(path).find(({ event }) => event === 'chain.repaired');
    expect(repaired).toMatchObject({ torn_bytes: half.length, torn: half });
    expect(numbersOf(path)).toEqual([0, 1, 2, 4]);
    expect(verified(path)).toMatchObject({ problem: null, repaired: 1, chains: [{ ended: false }, { ended: true }] });
  });

  it.each([1, 2, 100, 300])('also if %i bytes are missing', (bytes) => {
    const path = torn(bytes);
    openWriter(path).end();
    expect(verified(path)).toMatchObject({ problem: null, repaired: 1 });
    expect(numbersOf(path)).toEqual([0, 1, 2]);
  });

  it('is repaired by a writer that was there before as well', () => {
    const path = newTrail();
    const survivor = openWriter(path);
    survivor.append([numbered(0)]);
    appendFileSync(path, '{"v":2,"chain":"dead');
    survivor.append([numbered(1)]);
    survivor.end();
    expect(numbersOf(path)).toEqual([0, 1]);
    expect(verified(path)).toMatchObject({ problem: null, repaired: 1 });
  });

  it('of zeros, as a crash of the machine leaves them, is repaired too', () => {
    const path = torn(1);
    appendFileSync(path, Buffer.alloc(5_000));
    openWriter(path).end();
    expect(verified(path)).toMatchObject({ problem: null, repaired: 1 });
  });

  it('that is none of ours stays as it is, and is marked', () => {
    const path = newTrail();
    writeFileSync(path, 'my notes, without a newline');
    const writer = openWriter(path);
    writer.append([numbered(0)]);
    writer.end();
    expect(readFileSync(path, 'utf8')).toMatch(/^my notes, without a newline\n\{"v":2/);
    expect(verified(path)).toMatchObject({ problem: null, repaired: 1 });
  });
});

describe('a disk that fails', () => {
  it.runIf(process.platform === 'linux')('costs the lines, not the writer [audit.failure]', () => {
    const writer = openWriter('/dev/full');
    expect(writer.append([numbered(0)])?.code).toBe('ENOSPC');
    expect(writer.append([numbered(1)])?.code).toBe('ENOSPC');
    expect(writer.end()?.code).toBe('ENOSPC');
  });

  it('leaves a line that counts what was lost, once it works again', () => {
    const path = newTrail();
    const [folder, aside] = [join(path, '..'), `${join(path, '..')}-aside`];
    const writer = openWriter(path);
    writer.append([numbered(0)]);
    renameSync(folder, aside);
    expect(writer.append([numbered(1), numbered(2)])?.code).toBe('ENOENT');
    expect(writer.append([numbered(3)])?.code).toBe('ENOENT');
    renameSync(aside, folder);
    expect(writer.append([numbered(4)])).toBeNull();
    writer.end();
    expect(numbersOf(path)).toEqual([0, 4]);
    expect(linesOf(path).find(({ event }) => event === 'chain.lost')).toMatchObject({ lines: 3, reason: 'ENOENT' });
    expect(verified(path)).toMatchObject({ problem: null, lost: 3 });
  });

  it('and lines that found no place in the queue are counted in the same way', () => {
    const path = newTrail();
    const writer = openWriter(path);
    writer.append([numbered(0)]);
    writer.append([numbered(1)], 1_000);
    writer.end();
    const lines = linesOf(path);
    expect(lines.map(({ event }) => event)).toEqual([
      'chain.started',
      'budget.hit',
      'chain.lost',
      'budget.hit',
      'chain.ended',
    ]);
    expect(lines[2]).toMatchObject({ lines: 1_000, reason: 'queue_full' });
  });
});

it('has met every line about the trail itself [audit.schema]', () => {
  expect(chainEvents).toEqual(['chain.started', 'chain.rotated', 'chain.repaired', 'chain.lost', 'chain.ended']);
});
