import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const node = `${root}node_modules/.bin/node`;
const hello = [`${root}bin/spear-run.cjs`, `${root}fixtures/c/hello.wasm`];
const HANGS_MS = 60_000;

export interface StartUp {
  readonly helloMs: number;
  readonly nodeMs: number;
  /** Of the medians. */
  readonly ratio: number;
  /** Of the fastest runs: a busy machine disturbs these least. */
  readonly fastestRatio: number;
}

/** `spear-run hello.wasm` beside `node -e 0`, in turns. */
export function measureStartUp(rounds: number): StartUp {
  const empty: number[] = [];
  const guest: number[] = [];
  for (let round = 0; round < rounds; round++) {
    empty.push(elapsed(['-e', '0']));
    guest.push(elapsed(hello));
  }
  const [helloMs, nodeMs] = [median(guest), median(empty)];
  return { helloMs, nodeMs, ratio: helloMs / nodeMs, fastestRatio: Math.min(...guest) / Math.min(...empty) };
}

function elapsed(args: readonly string[]): number {
  const started = performance.now();
  const { status, error } = spawnSync(node, args, { stdio: 'ignore', env: {}, timeout: HANGS_MS });
  if (status !== 0) throw error ?? new Error(`node ${args.join(' ')} ended with ${status}`);
  return performance.now() - started;
}

function median(times: readonly number[]): number {
  return times.toSorted((a, b) => a - b)[times.length >> 1] ?? Number.NaN;
}
