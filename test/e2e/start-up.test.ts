import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { command, fixture, projectNode } from './spear-run.ts';

const MAX_RATIO = 3;
const ROUNDS = 15;
/** A machine that is busy with other things tells little in one go; a slow start is slow every time. */
const TRIES = 4;

function elapsed(args: readonly string[]): number {
  const started = performance.now();
  const { status, error } = spawnSync(projectNode, args, {
    stdio: 'ignore',
    env: { PATH: process.env.PATH },
    timeout: 60_000,
  });
  if (status !== 0) throw error ?? new Error(`node ${args.join(' ')} ended with ${status}`);
  return performance.now() - started;
}

const median = (times: number[]) => times.sort((a, b) => a - b)[times.length >> 1] ?? Number.NaN;

function ratios() {
  const node: number[] = [];
  const hello: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    node.push(elapsed(['-e', '0']));
    hello.push(elapsed([command, fixture('c/hello.wasm')]));
  }
  return { median: median(hello) / median(node), fastest: Math.min(...hello) / Math.min(...node) };
}

it('hello costs at most three times an empty Node [cli.start-up]', { timeout: 240_000 }, () => {
  const seen: string[] = [];
  let best = Number.POSITIVE_INFINITY;
  for (let tried = 0; tried < TRIES && best > MAX_RATIO; tried++) {
    const { median, fastest } = ratios();
    best = Math.min(best, median, fastest);
    seen.push(`median ${median.toFixed(2)}, fastest ${fastest.toFixed(2)}`);
  }
  process.stderr.write(`spear-run hello / node -e 0: ${seen.join('; ')}\n`);
  expect(best, seen.join('; ')).toBeLessThanOrEqual(MAX_RATIO);
});
