import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { toolchains } from '../../scripts/wasm-toolchains.ts';
import type * as Library from '../../src/index.ts';
import { summingModule } from '../guests/waiting-module.ts';
import { goal, notMeasured, type Row, type RowText, rowFrom } from '../measure/row.ts';
import { threadTimes } from '../measure/threads.ts';
import type { Effort } from './topic.ts';

type Lib = Pick<typeof Library, 'GuestThreads' | 'runGuest'>;

const PATIENT = { turn_ms: 60_000, timeout_ms: 600_000 };
/** A guest computes so many pieces, and says when it has each: by the third the engine has compiled it for speed. */
const PIECES = 6;
const FIRST_COUNTED = 2;
const NS_PER_MS = 1e6;

/** Makes records, sorts, indexes, prints and parses them: what a database or an interpreter does all day. */
const computing = (rounds: number) => `
import { log } from 'spear:host/log@1.1.0';
function piece() {
  let sum = 0;
  for (let i = 0; i < ${rounds}; i++) {
    const rows = Array.from({ length: 20 }, (_, n) => ({ id: (n * 7919 + i) % 101, name: 'row ' + n }));
    rows.sort((a, b) => a.id - b.id);
    const index = new Map(rows.map((row) => [row.id, row.name]));
    for (const { id, name } of JSON.parse(JSON.stringify(rows))) sum = (sum * 31 + id + index.get(id).length + name.length) | 0;
  }
  return sum;
}
export function run() {
  for (let n = 0; n < ${PIECES}; n++) log(2, 'a piece: ' + piece());
}`;

/** What giving way costs a guest that computes: processor time of its thread, from piece to piece. */
export async function turnPassRows(library: Lib, effort: Effort): Promise<Row[]> {
  const rounds = effort.of(2, 5);
  const shared = { topic: 'node', unit: 'ms', yardstickName: 'the same on a thread of its own' } as const;
  const loop: RowText = {
    ...shared,
    name: 'a loop of five instructions, made to give way: processor time',
    goal: null,
    note: 'the smallest possible loop body, so the highest relative cost of the yield check',
  };
  const summing = await summingModule(PIECES, effort.of(10_000, 60_000));
  return [
    await interpreter(library, { ...shared, ...interpreterText }, effort, rounds),
    await inTurns(library, loop, rounds, { wasm: summing }),
  ];
}

const interpreterText = {
  name: 'a guest that computes (QuickJS: records, sorting, JSON), made to give way: processor time',
  goal: goal.ratioAtMost(1.25),
  cause: 'a yield check at each loop head and in each chain of calls, and the scheduler ticks of the thread',
};

async function interpreter(library: Lib, text: RowText, effort: Effort, rounds: number): Promise<Row> {
  const compile = await toolchains.javascript.find();
  if (!compile) return notMeasured(text, `${toolchains.javascript.title} is missing`);
  const folder = mkdtempSync(join(tmpdir(), 'spear-bench-'));
  try {
    writeFileSync(join(folder, 'computing.js'), computing(effort.of(1_000, 6_000)));
    await compile(join(folder, 'computing.js'), join(folder, 'computing.wasm'), 'component');
    const wasm = readFileSync(join(folder, 'computing.wasm'));
    return await inTurns(library, text, rounds, { wasm, componentCache: folder });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

type Computing = Pick<Library.RunOptions, 'wasm' | 'componentCache'>;

async function inTurns({ GuestThreads, runGuest }: Lib, text: RowText, rounds: number, guest: Computing): Promise<Row> {
  const ours: number[] = [];
  const yardstick: number[] = [];
  for (let round = 0; round < rounds; round++) {
    // One thread of guests at a time: whose time it is must be plain.
    yardstick.push(...(await pieces(null)));
    await using threads = new GuestThreads({ threads: 1 });
    ours.push(...(await pieces(threads)));
  }
  return rowFrom(text, ours, yardstick);

  async function pieces(threads: Library.GuestThreads | null): Promise<number[]> {
    const marks: number[] = [];
    const output = () => void marks.push(threadTimes(process.pid).guest / NS_PER_MS);
    const result = await runGuest({ ...guest, threads, output, limits: PATIENT });
    if (result.exitCode !== 0) throw new Error(`${result.reason}: ${result.message}`);
    if (threads !== null && result.isolation.kind !== 'shared') throw new Error(String(result.isolation.why));
    if (marks.length !== PIECES) throw new Error(`the guest reported ${marks.length} pieces`);
    // By the last word the thread may be gone.
    const counted = marks.slice(FIRST_COUNTED - 1, -1);
    return counted.slice(1).map((mark, index) => mark - (counted[index] as number));
  }
}
