import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, existsSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  type AuditLogOptions,
  MAX_GATHERED_EVENTS,
  MAX_QUEUED_CHARS,
  openAuditLog,
} from '../../../src/server/audit/log.ts';
import { verifyTrail } from '../../../src/server/audit/verify.ts';
import { eventually } from '../../agent/mcp/client/pool-samples.ts';
import { change } from './audit-change.ts';
import { eventsOf, filesOf, linesOf, newTrail, numbersOf, samples, verified } from './audit-samples.ts';

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index);
const program = fileURLToPath(new URL('./audit-process.ts', import.meta.url));

/** A real process with a trail of its own. */
function start(...args: string[]): ChildProcess {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

async function ended(child: ChildProcess): Promise<[code: number | null, signal: string | null]> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  return [child.exitCode, child.signalCode];
}

function open(options: AuditLogOptions) {
  const failures: string[] = [];
  const log = openAuditLog({ onFailure: (code) => failures.push(code), ...options });
  return { log, trail: log.forTask('a task'), failures };
}

describe('a trail', () => {
  it('has all that was written, in its order, when it is closed', async () => {
    const path = newTrail();
    const { log, trail, failures } = open({ path, version: '1.2.3' });
    for (const number of range(0, 1_000)) trail.write('run-1', change(number));
    await log.close();
    expect(numbersOf(path)).toEqual(range(0, 1_000));
    expect(linesOf(path)[0]).toMatchObject({ event: 'chain.started', spear: '1.2.3', pid: process.pid });
    expect(
      new Set(
        linesOf(path)
          .slice(1, -1)
          .map(({ task, instance }) => `${task}, ${instance}`),
      ),
    ).toEqual(new Set(['a task, run-1']));
    expect(verified(path)).toMatchObject({ problem: null, chains: [{ ended: true }] });
    expect(failures).toEqual([]);
  });

  it('may be closed twice, and takes nothing afterwards', async () => {
    const path = newTrail();
    const { log, trail } = open({ path });
    await Promise.all([log.close(), log.close()]);
    trail.write('run-1', change(1));
    log.flushNow();
    await log.close();
    expect(eventsOf(path)).toEqual(['chain.started', 'chain.ended']);
  });

  it('is on disk soon, without being closed', async () => {
    const path = newTrail();
    const { log, trail } = open({ path });
    trail.write('run-1', change(1));
    await eventually(() => expect(numbersOf(path)).toEqual([1]));
    await log.close();
  });

  it.each([
    ['redacted', { path: 'a', token: '[redacted]' }],
    ['sha256', expect.stringMatching(/^sha256:[0-9a-f]{64}$/)],
    ['shape', { path: 'string(1)', token: 'string(3)' }],
    ['none', null],
  ] as const)('shows arguments as %s if that is asked for [audit.args]', (args, expected) => {
    const { log, trail } = open({ path: newTrail(), args });
    onTestFinished(() => log.close());
    expect(trail.showArguments?.({ path: 'a', token: 'xyz' })).toEqual(expected);
  });

  it('fails when it is opened where it cannot be written [audit.failure]', () => {
    const path = newTrail();
    expect(() => openAuditLog({ path: join(path, '..') })).toThrow(/EISDIR/);
    expect(() => openAuditLog({ path: join(path, 'no', 'audit') })).toThrow(/ENOENT/);
  });

  it.runIf(process.platform === 'linux')('says once that the disk is full, and goes on [audit.failure]', async () => {
    const { log, trail, failures } = open({ path: '/dev/full' });
    for (const number of range(0, 3)) {
      trail.write('run-1', change(number));
      await eventually(() => expect(failures).toEqual(['ENOSPC']));
    }
    await log.close();
    expect(failures).toEqual(['ENOSPC']);
  });
});

describe.runIf(process.platform !== 'win32')('a reader that does not read', () => {
  it('holds up nobody; what finds no place is counted, and the chain is whole [audit.backpressure]', async () => {
    const pipe = newTrail();
    spawnSync('mkfifo', [pipe]);
    const held = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK); // somebody who reads nothing
    const { log, trail } = open({ path: pipe });
    const event = { ...samples[4], args: { text: 'x'.repeat(10_000) } };
    const wanted = Math.ceil((1.5 * MAX_QUEUED_CHARS) / 10_000);
    for (const number of range(0, wanted)) {
      trail.write('run-1', { ...event, request_id: String(number) });
      if (number % 100 === 0) await new Promise<void>((resolve) => setImmediate(resolve));
    }
    const copy = `${pipe}.copy`;
    const reader = spawn('cat', [pipe], { stdio: ['ignore', openSync(copy, 'w'), 'ignore'] });
    let more = 0;
    // Once there is room again, the next line is preceded by the number of those that were lost.
    await eventually(() => {
      trail.write('run-1', change(more++));
      expect(readFileSync(copy, 'utf8')).toContain('"chain.lost"');
    });
    closeSync(held);
    await log.close();
    await ended(reader);
    const { problem, lost, chains } = verifyTrail([copy]);
    expect([problem, chains.length, chains[0]?.ended]).toEqual([null, 1, true]);
    const kept = linesOf(copy).filter(({ instance }) => instance === 'run-1');
    expect(kept.length + lost).toBe(wanted + more);
    const numbers = kept.flatMap(({ request_id }) => (request_id === undefined ? [] : [Number(request_id)]));
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
    expect(numbers.length).toBeGreaterThan(MAX_QUEUED_CHARS / 12_000);
    expect(lost).toBeGreaterThan(0);
  });

  it('and one that goes away costs the rest of the trail, not the run [audit.backpressure] [audit.failure]', async () => {
    const pipe = newTrail();
    spawnSync('mkfifo', [pipe]);
    const held = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
    const { log, trail, failures } = open({ path: pipe });
    trail.write('run-1', change(0));
    closeSync(held);
    await eventually(() => {
      trail.write('run-1', change(1));
      expect(failures).toHaveLength(1);
    });
    await log.close();
    expect(failures[0]).toMatch(/^(EPIPE|ENXIO)$/);
  });

  it('of a pipe that nobody opened is an error at once [audit.failure]', () => {
    const pipe = newTrail();
    spawnSync('mkfifo', [pipe]);
    expect(() => openAuditLog({ path: pipe })).toThrow(/ENXIO/);
  });
});

describe('a process', () => {
  it.each<[how: string, code: number]>([
    ['close', 0],
    ['exit', 7],
    ['throw', 1],
    ['reject', 1],
  ])('that ends by %s leaves all lines and a whole chain [audit.exit]', async (how, code) => {
    const path = newTrail();
    expect(await ended(start(how, path, '5000'))).toEqual([code, null]);
    expect(numbersOf(path)).toEqual(range(0, 5_000));
    expect(verified(path)).toMatchObject({ problem: null, lost: 0, chains: [{ ended: true }] });
  });

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('that %s ends leaves all lines [audit.exit]', async (signal) => {
    const path = newTrail();
    const child = start('signal', path, '500');
    await once(child.stdout as NodeJS.ReadableStream, 'data');
    child.kill(signal);
    expect(await ended(child)).toEqual([null, signal]);
    expect(numbersOf(path)).toEqual(range(0, 500));
    expect(verified(path)).toMatchObject({ problem: null, chains: [{ ended: true }] });
  });

  it('that is killed leaves every line but the last ones, and the next one goes on [audit.killed]', async () => {
    const path = newTrail();
    for (const round of range(0, 3)) {
      const before = existsSync(path) ? statSync(path).size : 0;
      const child = start('never', path, '0');
      await eventually(() => expect(statSync(path).size).toBeGreaterThan(before + 50_000 * (round + 1)), 20_000);
      child.kill('SIGKILL');
      expect(await ended(child)).toEqual([null, 'SIGKILL']);
    }
    expect(await ended(start('close', path, '10'))).toEqual([0, null]);
    const { problem, chains } = verified(path);
    expect(problem).toBeNull();
    expect(chains.map((chain) => chain.ended)).toEqual([false, false, false, true]);
    for (const { chain } of chains) {
      const own = linesOf(path).filter((line) => line.chain === chain && line.event === 'registry.applied');
      expect(own.map((line) => Number(line.revision))).toEqual(range(0, own.length));
      expect(own.length).toBeGreaterThanOrEqual(10);
    }
  }, 60_000);

  it('that is killed while its event loop stands still misses no more than may be gathered [audit.killed]', async () => {
    const path = newTrail();
    const count = 5 * MAX_GATHERED_EVENTS;
    const child = start('stuck', path, String(count));
    // Changes have lists, so their lines are made at once: handed over in the number that may be gathered.
    await eventually(() => expect(numbersOf(path).length).toBeGreaterThan(2 * count - MAX_GATHERED_EVENTS), 50_000);
    child.kill('SIGKILL');
    expect(await ended(child)).toEqual([null, 'SIGKILL']);
    expect(numbersOf(path)).toEqual(range(0, numbersOf(path).length));
    expect(verified(path).problem).toBeNull();
  }, 120_000);

  it.each(['close', 'exit'])(
    'that ends by %s before its writer thread has started loses no line [audit.exit]',
    async (how) => {
      const path = newTrail();
      const late = fileURLToPath(new URL('./slow-thread.mjs', import.meta.url));
      const env = { ...process.env, LATE_MS: '7000' };
      const child = spawn(process.execPath, ['--import', late, program, how, path, '2000'], { env, stdio: 'ignore' });
      onTestFinished(() => void child.kill('SIGKILL'));
      await ended(child);
      expect(numbersOf(path)).toEqual(range(0, 2_000));
      expect(verified(path)).toMatchObject({ problem: null, lost: 0, chains: [{ ended: true }] });
    },
  );

  it('and others may append to one file and rotate it, and nothing is lost [audit.rotation]', async () => {
    const path = newTrail();
    const [writers, count] = [4, 2_000];
    const children = range(0, writers).map(() => start('close', path, String(count), '100000'));
    expect(await Promise.all(children.map(ended))).toEqual(children.map(() => [0, null]));
    expect(filesOf(path).length).toBeGreaterThan(10);
    const { problem, chains, lost } = verified(path);
    expect([problem, lost, chains.length]).toEqual([null, 0, writers]);
    const lines = linesOf(path).filter(({ event }) => event === 'registry.applied');
    for (const { chain, ended: whole, from } of chains) {
      const own = lines.filter((line) => line.chain === chain).map((line) => Number(line.revision));
      expect([whole, from, own]).toEqual([true, 0, range(0, count)]);
    }
  }, 60_000);

  it('that finds a file of another version goes on in it', async () => {
    const path = newTrail();
    writeFileSync(path, '{"v":1,"time":"2026-01-02T03:04:05.678Z","run":"run-0","event":"guest.ended"}\n');
    expect(await ended(start('close', path, '3'))).toEqual([0, null]);
    expect(verified(path)).toMatchObject({ problem: null, unchained: 1, chains: [{ lines: 5 }] });
  });
});
