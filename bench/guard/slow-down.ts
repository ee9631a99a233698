/** A hostcall that is to be slower than it is, to show that the guard notices. */
export interface SlowDown {
  readonly call: string;
  readonly percent: number;
}

const DEFAULT_PERCENT = 30;

/** `CALL` or `CALL=PERCENT`. */
export function parseSlowDown(text: string): SlowDown {
  const [call = '', percent = String(DEFAULT_PERCENT)] = text.split('=');
  return { call, percent: Number(percent) };
}

type Import = (...args: number[]) => unknown;

let sink = 1;

/** Work that no compiler can leave out. */
function spin(turns: number): void {
  let value = sink;
  for (let turn = 0; turn < turns; turn++) value = (Math.imul(value, 1_103_515_245) + 12_345) | 0;
  sink = value;
}

const TRIAL_TURNS = 100_000;
const TRIALS = 50;
const NS_PER_MS = 1e6;

/** How many turns take so long on this machine; the fastest trial counts, for noise only adds time. */
export function turnsFor(ns: number): number {
  let fastest = Number.POSITIVE_INFINITY;
  for (let trial = 0; trial < TRIALS; trial++) {
    const started = performance.now();
    spin(TRIAL_TURNS);
    fastest = Math.min(fastest, performance.now() - started);
  }
  return Math.round((ns * TRIAL_TURNS) / (fastest * NS_PER_MS));
}

/** Puts `turns` of extra work behind one import. */
export function withExtraWork(imports: Record<string, unknown>, call: string, turns: number): Record<string, unknown> {
  const original = imports[call];
  if (typeof original !== 'function') throw new Error(`${call} is no hostcall that could be slowed down here`);
  const called = original as Import;
  // Of fixed arity, as the imports themselves are: rest parameters would cost more than the work.
  const slower = (a: number, b: number, c: number, d: number, e: number, f: number, g: number) => {
    const result = called(a, b, c, d, e, f, g);
    spin(turns);
    return result;
  };
  return { ...imports, [call]: slower };
}
