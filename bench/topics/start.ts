import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { requireBuild } from '../guests/built.ts';
import { goal, type Row, rowFrom } from '../measure/row.ts';
import type { Topic } from './topic.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const command = join(root, 'bin/spear-run.cjs');
const HANGS_MS = 60_000;

/** In empty Nodes. */
export const CORE_START_LIMIT = 3;
const COMPONENT_START_LIMIT = 4;
/** In starts of a core module. */
const COMPONENT_CORE_LIMIT = 2;

const core = [command, join(root, 'fixtures/c/hello.wasm')];
const component = [command, join(root, 'fixtures/assemblyscript/hello.component.wasm')];
const withWasi = [command, join(root, 'fixtures/c/hello.component.wasm')];

/** The command line as it is installed, from the start of its process to its end. */
export const topic: Topic = async (effort) => {
  requireBuild();
  const home = mkdtempSync(join(tmpdir(), 'spear-bench-'));
  try {
    const commands = { empty: ['-e', '0'], core, component, withWasi, cold: [...component, '--no-cache'] };
    const coldEvery = 3;
    const times = startAll(commands, home, effort.of(6, 41), coldEvery);
    const beside = (
      name: string,
      ours: number[],
      yardstick: number[],
      limit: number | null,
      than = 'node -e 0',
    ): Row => {
      const text = { topic: 'start', name, unit: 'ms', yardstickName: than } as const;
      return rowFrom({ ...text, goal: limit === null ? null : goal.ratioAtMost(limit) }, ours, yardstick);
    };
    const { empty, core: coreTimes, component: warm, withWasi: wasi, cold } = times;
    return [
      beside('spear-run hello, core module', coreTimes, empty, CORE_START_LIMIT),
      beside('spear-run hello, component, warm', warm, empty, COMPONENT_START_LIMIT),
      beside('spear-run hello, component, warm', warm, coreTimes, COMPONENT_CORE_LIMIT, 'the core module'),
      beside('spear-run hello, component with WASI, warm', wasi, empty, null),
      beside(
        'spear-run hello, component, cold',
        cold,
        empty.filter((_, round) => round % coldEvery === 0),
        null,
      ),
    ];
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
};

type Times<Name extends string> = Record<Name, number[]>;

/** In turns; the first round, which fills the cache, does not count. A cold start is slow, so it has fewer rounds. */
function startAll<Name extends string>(
  commands: Readonly<Record<Name, readonly string[]>>,
  home: string,
  rounds: number,
  coldEvery: number,
): Times<Name> {
  const names = Object.keys(commands) as Name[];
  const times = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Times<Name>;
  for (let round = -1; round < rounds; round++) {
    for (const name of names) {
      if (name === 'cold' && round % coldEvery !== 0) continue;
      const ms = elapsed(commands[name], home);
      if (round >= 0) times[name].push(ms);
    }
  }
  return times;
}

function elapsed(args: readonly string[], home: string): number {
  const started = performance.now();
  const options = { env: { HOME: home }, timeout: HANGS_MS, encoding: 'utf8' } as const;
  const { status, stderr, error } = spawnSync(process.execPath, args, options);
  if (status !== 0) throw error ?? new Error(`node ${args.join(' ')} ended with ${status}: ${stderr}`);
  return performance.now() - started;
}

export interface StartUp {
  /** Of the medians. */
  readonly ratio: number;
  /** Of the fastest runs: a busy machine disturbs these least. */
  readonly fastestRatio: number;
}

/** `spear-run hello.wasm` beside `node -e 0`, for the test that guards it. */
export function measureStartUp(rounds: number): StartUp {
  const home = mkdtempSync(join(tmpdir(), 'spear-bench-'));
  try {
    const times = startAll({ empty: ['-e', '0'], core }, home, rounds, 1);
    const middle = (samples: readonly number[]) => samples.toSorted((a, b) => a - b)[samples.length >> 1] ?? Number.NaN;
    return {
      ratio: middle(times.core) / middle(times.empty),
      fastestRatio: Math.min(...times.core) / Math.min(...times.empty),
    };
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}
