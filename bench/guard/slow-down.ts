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

/** How much extra work a call does; it may change while a guest runs. */
export interface ExtraWork {
  turns: number;
}

/** Puts extra work behind one import. */
export function withExtraWork(
  imports: Record<string, unknown>,
  call: string,
  work: ExtraWork,
): Record<string, unknown> {
  const original = imports[call];
  if (typeof original !== 'function') throw new Error(`${call} is no hostcall that could be slowed down here`);
  const called = original as Import;
  // Of fixed arity, as the imports themselves are: rest parameters would cost more than the work.
  const slower = (a: number, b: number, c: number, d: number, e: number, f: number, g: number) => {
    const result = called(a, b, c, d, e, f, g);
    spin(work.turns);
    return result;
  };
  return { ...imports, [call]: slower };
}

const FIRST_GUESS = 50;
const CORRECTIONS = 4;
const LEAST_ADDED = 0.01;

/**
 * Finds the work with which a call has the wanted ratio to its yardstick. By trial: the processor does part of the work
 * while it does something else, so the price of one turn says little. Not in nanoseconds: the machine may be busy now.
 */
export async function findWork(work: ExtraWork, wanted: number, ratio: () => Promise<number>): Promise<void> {
  work.turns = 0;
  const idle = await ratio();
  work.turns = idle < wanted ? FIRST_GUESS : 0;
  for (let again = 0; again < CORRECTIONS && work.turns > 0; again++) {
    const added = Math.max(LEAST_ADDED, (await ratio()) - idle);
    work.turns = Math.max(1, Math.round((work.turns * (wanted - idle)) / added));
  }
}
