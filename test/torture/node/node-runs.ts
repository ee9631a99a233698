import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { RunRecord } from '../../../src/server/records/run.ts';
import type { NodeLives } from './node-life.ts';

export const RUNS = '/v1/namespaces/default/runs';
const TO_THE_END_MS = 180_000;
const SOME_ENDED_MS = 5_000;
const PAGE = 500;

/** Waits until so many more runs have ended, with a deadline: all may have ended already. */
export async function someEnded(node: NodeLives, more: number): Promise<void> {
  const count = async () => {
    const { text } = await node.ask('GET', '/metrics');
    return Number(/spearlet_runs\{status="succeeded"\} (\d+)/.exec(text)?.[1]);
  };
  const before = await count();
  const until = performance.now() + SOME_ENDED_MS;
  while (performance.now() < until && (await count()) < before + more) await delay(20);
}

/** The newest runs of the node. */
export async function runsOf(node: NodeLives): Promise<readonly RunRecord[]> {
  const { text } = await node.ask('GET', `${RUNS}?limit=${PAGE}`);
  return (JSON.parse(text) as { runs: RunRecord[] }).runs;
}

/** Waits until every run of the node has ended. */
export async function allEnded(node: NodeLives): Promise<readonly RunRecord[]> {
  const until = performance.now() + TO_THE_END_MS;
  for (;;) {
    const runs = await runsOf(node);
    if (runs.every(({ ended_at_ms }) => ended_at_ms !== null)) return runs;
    if (performance.now() > until) {
      const left = runs.filter(({ ended_at_ms }) => ended_at_ms === null).map(({ id, status }) => `${id} ${status}`);
      throw new Error(`not all runs have ended: ${left.join(', ')}; ${node.log}`);
    }
    await delay(100);
  }
}

/** Run and label of every call that the server executed. */
export function effectsIn(file: string): readonly string[] {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
  return lines.map((line) => line.split(' ').slice(0, 2).join(' '));
}
