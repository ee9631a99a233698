import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { AgentRuns } from '../guests/agents-process.ts';
import { goal, type Row, rowFrom } from '../measure/row.ts';
import type { Effort } from './topic.ts';

const program = fileURLToPath(new URL('../guests/agents-process.ts', import.meta.url));
const MIB = 1024 ** 2;
const MS_PER_S = 1_000;
/** More threads than this do not fit a small machine. */
const THREADS = 100;

/** What a run of an agent takes of a machine's memory, for as long as it takes it: 1 / (runs a second and GiB). */
export async function agentRow(effort: Effort): Promise<Row> {
  const count = effort.of(200, 1_000);
  const ours: number[] = [];
  const yardstick: number[] = [];
  for (let round = 0; round < effort.of(1, 3); round++) {
    ours.push(await memorySeconds('shared', count));
    yardstick.push(await memorySeconds('thread', effort.of(THREADS / 5, THREADS)));
  }
  return rowFrom(
    {
      topic: 'node',
      name: `an agent's run (3 turns of 50 ms, 2 MCP calls), ${count} at once`,
      unit: 'MiB·s',
      yardstickName: 'on a thread each, as many as fit',
      goal: { ...goal.ratioAtMost(1 / 10), text: 'a tenth: 10 × the runs a second and GiB' },
      cause: 'the processor limits both: the host-side work of a run is the same on either side',
    },
    ours,
    yardstick,
  );
}

async function memorySeconds(kind: 'shared' | 'thread', count: number): Promise<number> {
  const child = fork(program, [kind, String(count)]);
  let found: AgentRuns | undefined;
  child.once('message', (message) => {
    found = message as AgentRuns;
  });
  const [code] = await once(child, 'exit');
  if (!found) throw new Error(`${count} agents (${kind}): the process ended with ${code}`);
  return ((found.bytes / MIB) * (found.ms / MS_PER_S)) / count;
}
