import { appendFileSync, copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { auditKey, sha256 } from '../../../src/server/audit/chain.ts';
import { verifyTrail } from '../../../src/server/audit/verify.ts';
import { filesOf, newTrail, numbered, openWriter, verified } from './audit-samples.ts';

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index);

/** A trail of ten lines, by one writer: chain.started, eight events, chain.ended. */
function trail(): string {
  const path = newTrail();
  const writer = openWriter(path);
  writer.append(range(0, 8).map((number) => numbered(number)));
  writer.end();
  return path;
}

/** The same by two, line by line, so that every chain has lines of the other in between. */
function interleaved(): string {
  const path = newTrail();
  const writers = [openWriter(path), openWriter(path)];
  for (const number of range(0, 4)) for (const writer of writers) writer.append([numbered(number)]);
  for (const writer of writers) writer.end();
  return path;
}

type Change = (lines: string[]) => unknown;

function edit(path: string, change: Change): string {
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  change(lines);
  writeFileSync(path, lines.map((line) => `${line}\n`).join(''));
  return path;
}

const replace = (at: number, from: string | RegExp, to: string) => (lines: string[]) => {
  const before = lines[at] ?? '';
  lines[at] = before.replace(from, to);
  if (lines[at] === before) throw new Error(`nothing to change in ${before}`);
};

describe('a trail that somebody worked on', () => {
  it.each<[what: string, change: Change, line: number, kind: string]>([
    ['a value is another one', replace(4, '"budget":"3"', '"budget":"9"'), 5, 'changed'],
    ['a time is another one', replace(4, /"ts":"2/, '"ts":"3'), 5, 'changed'],
    ['a blank more', replace(4, '"budget":"3"', '"budget": "3"'), 5, 'changed'],
    ['a field more', replace(4, '"prev"', '"extra":true,"prev"'), 5, 'changed'],
    ['something after the hash', replace(4, /\}$/, ',"extra":true}'), 5, 'changed'],
    ['its hash is another one', replace(4, /"hash":"./, '"hash":"x'), 5, 'changed'],
    ['its number is another one', replace(4, '"seq":4', '"seq":5'), 5, 'changed'],
    ['a line is no JSON', (lines) => lines.splice(4, 1, 'nothing'), 5, 'changed'],
    ['a line is half a line', replace(4, /.{40}$/, ''), 5, 'changed'],
    ['a line is taken out', (lines) => lines.splice(4, 1), 5, 'missing'],
    ['several lines are taken out', (lines) => lines.splice(2, 5), 3, 'missing'],
    ['the first line is taken out', (lines) => lines.shift(), 1, 'missing'],
    ['a line is there twice', (lines) => lines.splice(5, 0, lines[4] ?? ''), 6, 'duplicated'],
    ['a line is there again later', (lines) => lines.splice(8, 0, lines[2] ?? ''), 9, 'duplicated'],
    ['the end is there again', (lines) => lines.push(lines[9] ?? ''), 11, 'duplicated'],
    ['two lines changed places', (lines) => lines.splice(4, 2, lines[5] ?? '', lines[4] ?? ''), 5, 'reordered'],
    ['a line was moved to the end', (lines) => lines.push(...lines.splice(3, 1)), 4, 'reordered'],
    ['a line without a chain was put in', (lines) => lines.splice(4, 0, '{"v":2,"event":"guest.ended"}'), 5, 'foreign'],
    ['a line of version 1 was put in', (lines) => lines.splice(4, 0, '{"v":1,"event":"guest.ended"}'), 5, 'foreign'],
  ])('%s: it is found, and where [audit.verify]', (_, change, line, kind) => {
    const path = edit(trail(), change);
    expect(verified(path).problem).toMatchObject({ file: path, line, kind });
  });

  it('a line and its hash were made anew: the next one does not follow it [audit.verify]', () => {
    const path = edit(trail(), (lines) => {
      const hashed = (lines[4] ?? '').replace('"budget":"3"', '"budget":"9"').replace(/,"hash":"\w+"\}$/, '}');
      lines[4] = `${hashed.slice(0, -1)},"hash":"${sha256(hashed)}"}`;
    });
    expect(verified(path).problem).toMatchObject({ line: 6, kind: 'changed' });
  });

  it('among lines of several processes [audit.verify]', () => {
    const path = interleaved();
    expect(verified(path)).toMatchObject({ problem: null, lines: 12, chains: [{ lines: 6 }, { lines: 6 }] });
    expect(verified(edit(path, (lines) => lines.splice(5, 1))).problem).toMatchObject({ line: 7, kind: 'missing' });
  });

  it('lines of different processes may change places: each chain is whole [audit.verify]', () => {
    const path = edit(interleaved(), (lines) => lines.splice(4, 2, lines[5] ?? '', lines[4] ?? ''));
    expect(verified(path).problem).toBeNull();
  });

  it('a rotated file in the middle is gone, or in the wrong place [audit.verify] [audit.rotation]', () => {
    const path = newTrail();
    const writer = openWriter(path, { maxBytes: 2_048, keep: 100 });
    for (const number of range(0, 40)) writer.append([numbered(number)]);
    writer.end();
    const files = filesOf(path);
    expect(files.length).toBeGreaterThan(4);
    expect(verifyTrail(files).problem).toBeNull();
    const [first = '', second = '', third = ''] = files;
    expect(verifyTrail([second, first, ...files.slice(2)]).problem).toMatchObject({ file: first, kind: 'duplicated' });
    rmSync(second);
    expect(verified(path).problem).toMatchObject({ file: third, line: 1, kind: 'missing' });
    rmSync(first);
    expect(verified(path)).toMatchObject({ problem: null, chains: [{ ended: true }] });
  });

  it('the whole trail is there twice [audit.verify]', () => {
    const path = trail();
    copyFileSync(path, `${path}.1`);
    expect(verified(path).problem).toMatchObject({ file: path, line: 1, kind: 'duplicated' });
  });
});

describe('what a chain cannot prove', () => {
  it('the last lines are gone: it says that the chain did not end [audit.verify]', () => {
    const path = edit(trail(), (lines) => lines.splice(7));
    expect(verified(path)).toMatchObject({ problem: null, chains: [{ lines: 7, ended: false }] });
  });

  it('and the hash that was kept elsewhere shows it [audit.verify]', () => {
    const path = trail();
    const before = verified(path).chains[0]?.head;
    edit(path, (lines) => lines.splice(7));
    expect(verified(path).chains[0]?.head).not.toBe(before);
  });
});

describe('a trail with accidents', () => {
  it('an empty file is whole [audit.verify]', () => {
    const path = newTrail();
    writeFileSync(path, '');
    expect(verified(path)).toMatchObject({ problem: null, lines: 0, chains: [] });
  });

  it('half a line at the end is named as cut [audit.verify]', () => {
    const path = trail();
    appendFileSync(path, '{"v":2,"chain":"1');
    expect(verified(path).problem).toMatchObject({ line: 11, kind: 'cut' });
  });

  it('a line without end, and bytes that are no text, are named and not kept in memory [audit.verify]', () => {
    const path = trail();
    appendFileSync(path, Buffer.alloc(20_000_000, 0xff));
    appendFileSync(path, '\n');
    expect(verified(path).problem).toMatchObject({ line: 11, kind: 'changed' });
  });
});

describe('a trail with a key', () => {
  const key = auditKey('a key of some length');
  const other = auditKey('another key of some length');

  function keyed(options = { key }): string {
    const path = newTrail();
    const writer = openWriter(path, options);
    writer.append(range(0, 8).map((number) => numbered(number)));
    writer.end();
    return path;
  }

  it('is whole by its key [audit.key]', () => {
    const path = keyed();
    expect(verifyTrail([path], [key])).toMatchObject({ problem: null, chains: [{ keyId: key.id, proved: true }] });
    expect(verifyTrail([path], [other, key]).problem).toBeNull();
    expect(readFileSync(path, 'utf8')).toContain(`"keyed":true,"key_id":"${key.id}"`);
    expect(readFileSync(path, 'utf8')).not.toContain('a key of some length');
  });

  it('proves no more than numbers and links without it [audit.key]', () => {
    const path = keyed();
    expect(verifyTrail([path])).toMatchObject({ problem: null, chains: [{ keyId: key.id, proved: false }] });
    expect(verifyTrail([edit(path, (lines) => lines.splice(4, 1))]).problem).toMatchObject({ kind: 'missing' });
  });

  it('tells another key from another line [audit.key]', () => {
    const path = keyed();
    expect(verifyTrail([path], [other]).problem).toMatchObject({ kind: 'key', line: 1 });
    edit(path, replace(4, '"budget":"3"', '"budget":"9"'));
    expect(verifyTrail([path], [key]).problem).toMatchObject({ kind: 'changed', line: 5 });
  });

  it('cannot be written anew by somebody without the key [audit.key]', () => {
    for (const forged of [{ key: null }, { key: other }]) {
      expect(verifyTrail([keyed(forged as { key: typeof key })], [key]).problem).toMatchObject({
        kind: 'key',
        line: 1,
      });
    }
    // Claims the key, and has every number and link right.
    const path = edit(keyed({ key: null } as never), (lines) => {
      let prev = '0'.repeat(64);
      for (const [at, line] of lines.entries()) {
        const text = line
          .replace('"keyed":false,"key_id":null', `"keyed":true,"key_id":"${key.id}"`)
          .replace(/"prev":"\w+","hash":"\w+"\}$/, `"prev":"${prev}"}`);
        prev = sha256(text);
        lines[at] = `${text.slice(0, -1)},"hash":"${prev}"}`;
      }
    });
    expect(verifyTrail([path]).problem).toBeNull();
    expect(verifyTrail([path], [key]).problem).toMatchObject({ kind: 'changed', line: 1 });
  });

  it('keeps its key over rotations, also where the beginning is gone [audit.key] [audit.rotation]', () => {
    const path = newTrail();
    const writer = openWriter(path, { key, maxBytes: 4_096, keep: 1 });
    for (const number of range(0, 60)) writer.append([numbered(number)]);
    writer.end();
    const trail = verifyTrail(filesOf(path), [key]);
    expect(trail).toMatchObject({ problem: null, chains: [{ keyId: key.id, proved: true }] });
    expect(trail.chains[0]?.from).toBeGreaterThan(0);
  });
});
