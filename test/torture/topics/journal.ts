import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { RecordedRun } from '../../../src/runtime/durable/recorded-run.ts';
import { builtCommand } from '../../support/built-command.ts';
import { builtGuests, type RecordedGuest } from '../journal/guests.ts';
import { randomGuest } from '../journal/random-guest.ts';
import type { Replayed } from '../journal/replays.ts';
import { tampering } from '../journal/tampering.ts';
import { type Effort, Failures, type Topic } from '../topic.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const program = fileURLToPath(new URL('../journal/replays.ts', import.meta.url));
const HANGS_MS = 120_000;
/** Journals that are replayed in one process. */
const BATCH = 8;
const SHORT_GUESTS = 6;

interface Recorded extends Pick<Replayed, 'reason' | 'exitCode' | 'stdout' | 'stderr'> {
  readonly guest: RecordedGuest;
  readonly file: string;
}

export const topic: Topic = async (effort) => {
  const folder = mkdtempSync(join(tmpdir(), 'spear-torture-journal-'));
  const load = Array.from({ length: Math.max(1, availableParallelism() - 1) }, () =>
    spawn(process.execPath, ['-e', 'for(;;);']),
  );
  try {
    return [await replayAll(effort, folder), await tampering(effort)];
  } finally {
    for (const busy of load) (busy as ChildProcess).kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
};

async function replayAll(effort: Effort, folder: string) {
  const guests = [...chosen(effort), ...(await randomGuests(effort, folder))];
  const times = effort.of(3, 20);
  const failures = new Failures();
  const recorded: Recorded[] = [];
  let replays = 0;
  for (const [index, guest] of guests.entries()) {
    if (effort.isOver()) break;
    const run = record(guest, join(folder, `${index}.journal`), folder);
    if (typeof run === 'string') failures.add(`${guest.name}: ${run}`);
    else recorded.push(run);
    effort.progress(recorded.length, guests.length);
  }
  for (let at = 0; at < recorded.length && !effort.isOver(); at += BATCH) {
    const batch = recorded.slice(at, at + BATCH);
    const found = replay(batch, times, folder);
    if (typeof found === 'string') {
      failures.add(`${batch.map(({ guest }) => guest.name).join(', ')}: ${found}`);
      continue;
    }
    for (const [index, again] of found.entries()) {
      replays += again.length;
      const difference = again.map((one) => differs(batch[index] as Recorded, one)).find((one) => one !== null);
      if (difference) failures.add(`${batch[index]?.guest.name}: ${difference}`);
    }
    effort.progress(replays, recorded.length * times);
  }
  return {
    what: 'a run recorded once and replayed again and again beside busy cores, without any process or socket',
    count: replays,
    lost: failures.count,
    crashed: 0,
    measured: `${recorded.length} guests, ${times} replays each: output and exit code the same, the hash at every record`,
    failures: failures.list(),
  };
}

/** Of a short run a few, others each time. */
function chosen({ short, random }: Effort): RecordedGuest[] {
  const all = builtGuests();
  return short ? Array.from({ length: SHORT_GUESTS }, () => random.pick(all)) : all;
}

async function randomGuests({ of, random }: Effort, folder: string): Promise<RecordedGuest[]> {
  const seeds = Array.from({ length: of(2, 30) }, () => random.seed());
  return Promise.all(
    seeds.map(async (seed) => {
      const wasm = join(folder, `random-${seed}.wasm`);
      writeFileSync(wasm, await randomGuest(seed | 0));
      return { name: `random calls of seed ${seed}`, wasm, flags: [], guestArgs: [], input: null };
    }),
  );
}

function record(guest: RecordedGuest, file: string, folder: string): Recorded | string {
  const { wasm, flags, guestArgs, input } = guest;
  const args = [builtCommand('spear-run'), wasm, ...flags, '--journal', file, '--', ...guestArgs];
  const { error } = spawnSync(process.execPath, args, {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: folder, XDG_CACHE_HOME: folder },
    stdio: [input === null ? 'ignore' : openSync(input, 'r'), 'ignore', 'ignore'],
    timeout: HANGS_MS,
  });
  if (error) return `it was not recorded: ${error.message}`;
  const read = readJournal(file);
  const { end } = new RecordedRun(read);
  if (end === null) return 'its journal has no end';
  const callsTools = flags.includes('--mcp-dir');
  if (callsTools && !read.records.some(({ t }) => t === 'tool.started')) return 'it was to call a tool, and did not';
  const output = (fd: string) =>
    Buffer.concat(
      read.records.flatMap((record) =>
        record.t === 'output' && record.fd === fd ? [Buffer.from(record.b, 'base64')] : [],
      ),
    ).toString('base64');
  return { guest, file, reason: end.reason, exitCode: end.exit, stdout: output('stdout'), stderr: output('stderr') };
}

function replay(batch: readonly Recorded[], times: number, folder: string): Replayed[][] | string {
  const permissions = ['--permission', '--allow-fs-read=*', `--allow-fs-write=${folder}`, '--allow-worker'];
  const { stdout, stderr, status } = spawnSync(process.execPath, [...permissions, program, String(times)], {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: folder },
    input: JSON.stringify(
      batch.map(({ guest, file }) => ({ wasm: guest.wasm, file, componentCache: join(folder, 'spear/components') })),
    ),
    encoding: 'utf8',
    maxBuffer: Number.POSITIVE_INFINITY,
    timeout: HANGS_MS * times,
  });
  if (status !== 0) return `the replays ended with ${status}: ${stderr.slice(-1000)}`;
  const { lockedUp, replays } = JSON.parse(stdout) as { lockedUp: boolean; replays: Replayed[][] };
  return lockedUp ? replays : 'the process that replays may start others or open sockets';
}

function differs(recorded: Recorded, again: Replayed): string | null {
  for (const what of ['reason', 'exitCode', 'stdout', 'stderr'] as const) {
    if (recorded[what] === again[what]) continue;
    const [was, is] = [recorded[what], again[what]].map((value) => String(value).slice(0, 200));
    return `${what} was ${was} and is ${is}; ${again.message}`;
  }
  return null;
}
