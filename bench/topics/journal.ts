import { spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  ARGUMENTS,
  bareServer,
  type EchoServer,
  resultOf,
  SERVER_ID,
  stdioServer,
  TOOL,
} from '../guests/echo-servers.ts';
import { type GuestFolder, GuestProcess } from '../guests/guest-process.ts';
import { DROP, mustBe } from '../guests/instructions.ts';
import { type JournalCorpus, makeCorpus } from '../guests/journal-corpus.ts';
import { mcpFlags } from '../guests/mcp-guest.ts';
import { type Steps, steppingGuest } from '../guests/stepping-guest.ts';
import { SENTENCE } from '../guests/texts.ts';
import { placementProblem, placeOnOneCore } from '../measure/placement.ts';
import { type Goal, goal, notMeasured, type Row, type RowText, rowFrom } from '../measure/row.ts';
import { median } from '../measure/statistics.ts';
import { stepInTurns } from '../measure/stepped.ts';
import { countedSteps, type ThreadTimes } from '../measure/threads.ts';
import type { Effort, Topic } from './topic.ts';

/** In one step: a step is timed by a clock, whose every look a journal has too. */
const GOVERNED_CALLS = 10;
const LOCAL_CALLS = 200;
/** Steps until what runs all the time is compiled: before, everything costs half as much again. */
const WARM_UP = 1_000;
const CORPUS_MS = 60_000;
const NS_PER_US = 1_000;

const spear = fileURLToPath(new URL('../../bin/spear.cjs', import.meta.url));

/** What a journal costs a run, and how fast recorded runs are judged. */
export const topic: Topic = async (effort) => {
  const problem = placementProblem('one core');
  const corpus = corpusRows(effort); // before everything is put on one core
  if (problem === null) placeOnOneCore();
  return [...(await governedRows(effort, problem)), await localRow(effort), ...corpus];
};

async function governedRows(effort: Effort, problem: string | null): Promise<Row[]> {
  const text = (name: string, wanted: Goal | null): RowText => ({
    topic: 'journal',
    name: `${name}: processor time of the host thread`,
    unit: 'µs',
    yardstickName: 'the same without a journal',
    goal: wanted,
  });
  const everything = text('a governed call of server-everything with a journal, one core', goal.ratioAtMost(1.1));
  const bare = text('the same of a server that does nothing', goal.ratioAtMost(1.1));
  const disk = text('the same of a server that does nothing, by fsync', null);
  if (problem !== null) return [everything, bare, disk].map((row) => notMeasured(row, problem));
  return [
    await governedRow(everything, stdioServer, 'write', effort.of(7, 31), effort),
    await governedRow(bare, bareServer, 'write', effort.of(7, 31), effort),
    await governedRow(disk, bareServer, 'disk', effort.of(3, 9), effort),
  ];
}

async function governedRow(
  text: RowText,
  server: EchoServer,
  sync: 'write' | 'disk',
  rounds: number,
  effort: Effort,
): Promise<Row> {
  const wasm = callingGuest(server);
  const mcp = (folder: GuestFolder) => mcpFlags(folder, [server.record]);
  const plain = new GuestProcess({ wasm, flags: mcp });
  const flags = (folder: GuestFolder) => [...mcp(folder), ...journalFlags(folder), '--journal-sync', sync];
  const journaled = new GuestProcess({ wasm, flags });
  try {
    const ours = countedSteps(journaled.pid, (count) => journaled.steps(count));
    const yardstick = countedSteps(plain.pid, (count) => plain.steps(count));
    await stepInTurns(ours.steps, yardstick.steps, { rounds, steps: effort.of(5, 20), warmUp: WARM_UP });
    const host = (times: readonly ThreadTimes[]) => times.map((each) => each.host / GOVERNED_CALLS / NS_PER_US);
    return rowFrom(text, host(ours.perStep()), host(yardstick.perStep()));
  } finally {
    await journaled.close();
    await plain.close();
  }
}

/** On the guest's thread, as the guest sees it. */
async function localRow(effort: Effort): Promise<Row> {
  const text: RowText = {
    topic: 'journal',
    name: 'cchat_write_msg 64 B with a journal',
    unit: 'ns',
    yardstickName: 'the same without a journal',
    goal: goal.addedAtMost(50, 'ns'),
  };
  const wasm = writingGuest();
  const plain = new GuestProcess({ wasm });
  const journaled = new GuestProcess({ wasm, flags: journalFlags });
  try {
    const rounds = { rounds: effort.of(15, 61), steps: 50, warmUp: effort.of(500, 2_000) };
    const ours: number[] = [];
    const yardstick: number[] = [];
    const kept = (into: number[], guest: GuestProcess) => async (count: number) => {
      const times = await guest.steps(count);
      into.push(median(times) / LOCAL_CALLS);
      return times;
    };
    await stepInTurns(kept(ours, journaled), kept(yardstick, plain), rounds);
    return rowFrom(text, ours.slice(1), yardstick.slice(1));
  } finally {
    await journaled.close();
    await plain.close();
  }
}

const journalFlags = (folder: GuestFolder) => [
  ...['--journal', `${folder.path}/run.journal`],
  ...['--limit', 'journal_bytes=1073741824'],
];

/** A guest that calls the tool of a server, some times a step. */
function callingGuest(server: EchoServer): Uint8Array {
  const expected = resultOf(server).length;
  const once = (steps: Steps, tool: [number, number], args: [number, number]) => [
    ...steps.setCapacity,
    ...mustBe(steps.call('mcp_call_tool', steps.get(0), ...tool, ...args, ...steps.out), expected),
  ];
  return steppingGuest({
    setup: (steps) => steps.set(0, steps.call('mcp_open', ...steps.text(SERVER_ID))),
    step: (steps) => {
      const [tool, args] = [steps.text(TOOL), steps.text(ARGUMENTS)];
      return Array.from({ length: GOVERNED_CALLS }, () => once(steps, tool, args)).flat();
    },
  });
}

/** A guest that writes messages into a session, many a step. */
function writingGuest(): Uint8Array {
  return steppingGuest({
    step: (steps) => {
      const [role, content] = [steps.text('user'), steps.text(SENTENCE)];
      const write = mustBe(steps.call('cchat_write_msg', steps.get(0), ...role, ...content), 0);
      return [
        ...steps.set(0, steps.call('cchat_create')),
        ...Array.from({ length: LOCAL_CALLS }, () => write).flat(),
        ...[...steps.call('cchat_close', steps.get(0)), ...DROP],
      ];
    },
  });
}

/** The whole command, from its start to its end. */
function corpusRows(effort: Effort): Row[] {
  const runs = effort.of(500, 10_000);
  const corpus = makeCorpus(runs);
  try {
    const ours: number[] = [];
    const yardstick: number[] = [];
    for (let round = 0; round < effort.of(1, 3); round++) {
      yardstick.push(timed(() => corpus.files.map((file) => hash('sha256', readFileSync(file)))));
      ours.push(timed(() => judge(corpus, runs)));
    }
    const text: RowText = {
      topic: 'journal',
      name: `spear test: ${runs} recorded runs of the files example against a changed policy`,
      unit: 'ms',
      yardstickName: 'reading the files and their sha256',
      goal: goal.medianAtMost(CORPUS_MS, 'ms'),
    };
    return [rowFrom(text, ours, yardstick)];
  } finally {
    corpus.close();
  }
}

function judge({ journals, policy }: JournalCorpus, runs: number): void {
  const args = [spear, 'test', '--journals', journals, '--policy', policy, '--json'];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 1 << 30 });
  const differ = stdout.split('\n').filter((line) => line.includes('"verdict":"differs"')).length;
  if (status !== 1 || differ !== runs) throw new Error(`spear test found ${differ} of ${runs} (${status}): ${stderr}`);
}

function timed(work: () => unknown): number {
  const started = performance.now();
  work();
  return performance.now() - started;
}
