import { type Goal, notMeasured, type Row, type RowText, rowFrom } from '../measure/row.ts';
import type { ThreadKind, ThreadTimes } from '../measure/threads.ts';

const NS_PER_US = 1_000;
/** Helpers may have had nothing to do. */
const LEAST_US = 0.001;

/** By round, of both sides; or why there is nothing. */
export type ProcessorTimes =
  | { readonly ours: readonly ThreadTimes[]; readonly yardstick: readonly ThreadTimes[] }
  | { readonly problem: string };

const shown: readonly (readonly [kind: ThreadKind, name: string])[] = [
  ['host', 'the host thread'],
  ['guest', 'the guest thread'],
  ['trail', 'the audit thread'],
  ['helpers', 'helpers of V8 and libuv'],
];

/**
 * Processor time, by whose thread spent it: steadier than time on a clock, and what a bill is made of. The yardstick of
 * the host thread is the one thread that the other side has, of the helpers those of the other side.
 */
export function processorRows(
  topic: string,
  name: string,
  yardstickName: string,
  hostGoal: Goal | null,
  measured: ProcessorTimes,
): Row[] {
  return shown.map(([kind, threads]) => {
    const beside: ThreadKind = kind === 'helpers' ? 'helpers' : 'host';
    const text: RowText = {
      topic,
      name: `${name}: processor time of ${threads}`,
      unit: 'µs',
      yardstickName: beside === 'host' ? `${yardstickName}, its thread` : `${yardstickName}, its helpers`,
      goal: kind === 'host' ? hostGoal : null,
    };
    if ('problem' in measured) return notMeasured(text, measured.problem);
    const micros = (times: readonly ThreadTimes[], of: ThreadKind) =>
      times.map((each) => Math.max(LEAST_US, each[of] / NS_PER_US));
    return rowFrom(text, micros(measured.ours, kind), micros(measured.yardstick, beside));
  });
}
