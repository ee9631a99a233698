import { type ComponentLoops, instantiateOurs, instantiatePlain, loopingComponent } from '../guests/component-guest.ts';
import type { ComponentLoop } from '../guests/component-loops.ts';
import { interleave, type Side } from '../measure/rounds.ts';
import { goal, type Row, rowFrom } from '../measure/row.ts';
import { type HostcallBench, openHostcallBench, sidesOf } from './hostcall-cases.ts';
import type { Topic } from './topic.ts';

const CALLS_PER_SAMPLE = 200;
/** jco's glue is so slow that fewer calls say as much. */
const GLUE_CALLS_PER_SAMPLE = 20;
const WARM_UP_ROUNDS = 100;

/** The loop of the component that makes the same call as a case of the core module. */
const loopOf: Readonly<Record<string, ComponentLoop>> = {
  'cchat_write_msg 64 B': 'write-short',
  'cchat_write_msg 4 KB': 'write-long',
  'cchat_ctl SET_PARAM': 'set-param',
  'cchat_ctl GET_METRICS': 'get-metrics',
  cchat_recv: 'recv',
  'spear_fd_ctl SET_FLAGS': 'set-flags',
  'spear_fd_ctl GET_STATUS': 'get-status',
};

/** The same calls three times: from a core module, from a component as we link it, and as jco's glue alone does. */
export const topic: Topic = async (effort) => {
  const bench = await openHostcallBench();
  try {
    const component = await loopingComponent();
    const ours = await instantiateOurs(component, bench.guest.state);
    const plain = await instantiatePlain(component, bench.guest.state);
    const cases = bench.local.filter(({ name }) => loopOf[name] !== undefined);
    const contests = cases.map((one) => {
      const loop = loopOf[one.name] as ComponentLoop;
      const [, core] = sidesOf(bench.guest, one, CALLS_PER_SAMPLE);
      return [core, sideOf(bench, ours, loop, CALLS_PER_SAMPLE), sideOf(bench, plain, loop, GLUE_CALLS_PER_SAMPLE)];
    });
    const samples = await interleave(contests, { rounds: effort.of(61, 401), warmUp: WARM_UP_ROUNDS });
    return cases.flatMap(({ name }, index): Row[] => {
      const [core = [], component = [], glue = []] = samples[index] ?? [];
      const text = { topic: 'component', name, unit: 'ns' } as const;
      return [
        rowFrom({ ...text, yardstickName: 'the same from a core module', goal: goal.ratioAtMost(3) }, component, core),
        rowFrom({ ...text, yardstickName: "jco's unmodified glue", goal: goal.ratioAtMost(0.1) }, component, glue),
      ];
    });
  } finally {
    await bench.guest.close();
  }
};

const needsFreshSession: readonly ComponentLoop[] = ['write-short', 'write-long', 'set-param'];
const needsResponse: readonly ComponentLoop[] = ['get-metrics', 'recv'];

function sideOf(bench: HostcallBench, loops: ComponentLoops, loop: ComponentLoop, operations: number): Side {
  let fd = needsResponse.includes(loop) ? bench.answered : bench.idle;
  let result = Number.NaN;
  return {
    operations,
    before: async () => {
      if (needsFreshSession.includes(loop)) fd = await bench.fresh();
    },
    run: async () => {
      result = await loops[loop](operations, fd);
    },
    after: () => {
      if (result !== 0) throw new Error(`${loop} of the component gave ${result}: the wrong thing is measured`);
    },
  };
}
