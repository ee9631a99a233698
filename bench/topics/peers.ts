import { createPlugin, type Plugin } from '@extism/extism';
import { instantiatePlain, loopingComponent } from '../guests/component-guest.ts';
import { extismPlugin } from '../guests/extism-plugin.ts';
import { SENTENCE } from '../guests/texts.ts';
import { interleave, type Rounds, type Side } from '../measure/rounds.ts';
import { type Goal, goal, type Row, rowFrom } from '../measure/row.ts';
import { openHostcallBench, sidesOf } from './hostcall-cases.ts';
import type { Topic } from './topic.ts';

const OURS = 'cchat_write_msg 64 B';
const CALLS_PER_SAMPLE = 200;
const FOREGROUND_CALLS = 50;
/** Each takes milliseconds: few of them say enough. */
const WORKER_CALLS = 4;
const WORKER_WARM_UP_ROUNDS = 3;
const GLUE_CALLS = 20;
const WARM_UP_ROUNDS = 60;

const fasterBy = (times: number): Goal => ({ ...goal.ratioAtLeast(times), text: `ours faster by ≥ ${times}` });

/** What a text of 64 bytes to the host costs where one would otherwise write such a guest. */
export const topic: Topic = async (effort) => {
  const bench = await openHostcallBench();
  const foreground = await openExtism(FOREGROUND_CALLS, false);
  const worker = await openExtism(WORKER_CALLS, true);
  try {
    const plain = await instantiatePlain(await loopingComponent(), bench.guest.state);
    const ours = bench.local.find(({ name }) => name === OURS);
    if (!ours) throw new Error(`there is no case ${OURS}`);
    const [, side] = sidesOf(bench.guest, ours, CALLS_PER_SAMPLE);
    let session = 0;
    const glue: Side = {
      operations: GLUE_CALLS,
      before: async () => {
        session = await bench.fresh();
      },
      run: () => plain['write-short'](GLUE_CALLS, session),
    };
    const fast = [
      { name: 'Extism, foreground', side: foreground.side, goal: fasterBy(5) },
      { name: 'jco, its glue alone', side: glue, goal: fasterBy(10) },
    ];
    const slow = [{ name: 'Extism, worker', side: worker.side, goal: fasterBy(100) }];
    return [
      ...(await beside(side, fast, { rounds: effort.of(61, 301), warmUp: WARM_UP_ROUNDS })),
      ...(await beside(side, slow, { rounds: effort.of(9, 31), warmUp: WORKER_WARM_UP_ROUNDS })),
    ];
  } finally {
    await foreground.close();
    await worker.close();
    await bench.guest.close();
  }
};

interface Peer {
  readonly name: string;
  readonly side: Side;
  readonly goal: Goal;
}

async function beside(ours: Side, peers: readonly Peer[], rounds: Rounds): Promise<Row[]> {
  const [[mine = [], ...others] = []] = await interleave([[ours, ...peers.map(({ side }) => side)]], rounds);
  return peers.map(({ name, goal: wanted }, index) => {
    const text = { topic: 'peers', name, unit: 'ns', yardstickName: `ours: ${OURS}`, goal: wanted } as const;
    return rowFrom(text, others[index] ?? [], mine);
  });
}

async function openExtism(times: number, runInWorker: boolean): Promise<{ side: Side; close(): Promise<void> }> {
  let taken = 0;
  const plugin: Plugin = await createPlugin(
    { wasm: [{ data: extismPlugin(times) }] },
    {
      useWasi: false,
      runInWorker,
      functions: {
        'extism:host/user': {
          take(context, offset: bigint) {
            if (context.read(offset)?.text() === SENTENCE) taken++;
            return offset;
          },
        },
      },
    },
  );
  const side: Side = {
    operations: times,
    before: () => {
      taken = 0;
    },
    run: () => plugin.call('run'),
    after: () => {
      if (taken !== times) throw new Error(`Extism passed ${taken} of ${times} texts: the wrong thing is measured`);
    },
  };
  return { side, close: () => plugin.close() };
}
