import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Density } from '../guests/density-process.ts';
import { type Row, rowFrom, type Unit } from '../measure/row.ts';
import type { Topic } from './topic.ts';

const program = fileURLToPath(new URL('../guests/density-process.ts', import.meta.url));
const MIB = 2 ** 20;
const COUNTS = [1, 10, 100];
/** A hundred threads take a while: a quick run leaves them out. */
const QUICK_COUNTS = [1, 10];

const figures: readonly { what: string; unit: Unit; of: (density: Density) => number }[] = [
  { what: 'memory each', unit: 'MiB', of: ({ rssBytesEach }) => rssBytesEach / MIB },
  { what: 'start each', unit: 'ms', of: ({ startMsEach }) => startMsEach },
  { what: 'event-loop delay, p99', unit: 'ms', of: ({ loopDelayP99Ms }) => loopDelayP99Ms },
];

/** Guests suspended in a chat call, all in one process: what sharing threads will have to beat. */
export const topic: Topic = async (effort) => {
  const rows: Row[] = [];
  for (const count of effort.quick ? QUICK_COUNTS : COUNTS) {
    const guests: Density[] = [];
    const workers: Density[] = [];
    for (let round = 0; round < effort.of(1, 3); round++) {
      workers.push(await measure('workers', count));
      guests.push(await measure('guests', count));
    }
    for (const { what, unit, of } of figures) {
      const name = `${count} ${count === 1 ? 'guest' : 'guests'}: ${what}`;
      const text = { topic: 'density', name, unit, yardstickName: 'bare workers', goal: null };
      rows.push(rowFrom(text, guests.map(of), workers.map(of)));
    }
  }
  return rows;
};

async function measure(kind: 'guests' | 'workers', count: number): Promise<Density> {
  const child = fork(program, [kind, String(count)]);
  let density: Density | undefined;
  child.once('message', (message) => {
    density = message as Density;
  });
  const [code] = await once(child, 'exit');
  if (!density) throw new Error(`${count} ${kind}: the process ended with ${code}`);
  return density;
}
