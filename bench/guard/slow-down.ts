import { hostcalls } from '../../src/runtime/guest/hostcalls/all.ts';
import type { HostcallTable } from '../../src/runtime/guest/hostcalls/table.ts';
import type { Ratios } from './compare.ts';

/** A hostcall that is to be slower than it is, to show that the guard notices. */
export interface SlowDown {
  readonly call: string;
  readonly percent: number;
}

export const DEFAULT_PERCENT = 30;

/** `CALL` or `CALL=PERCENT`. */
export function parseSlowDown(text: string): SlowDown {
  const [call = '', percent = String(DEFAULT_PERCENT)] = text.split('=');
  return { call, percent: Number(percent) };
}

let sink = 1;

/** Work that no compiler can leave out. */
function spin(turns: number): void {
  let value = sink;
  for (let turn = 0; turn < turns; turn++) value = (Math.imul(value, 1_103_515_245) + 12_345) | 0;
  sink = value;
}

/** Extra work, by figure: turns of {@link spin} for a hostcall, nanoseconds of each write for what is a whole process. */
export type Plant = Readonly<Record<string, number>>;

/** How much extra work a call does; it changes from figure to figure. */
export interface ExtraWork {
  turns: number;
}

type Handler = (...args: unknown[]) => unknown;

/** The hostcalls, some of them with extra work behind them. */
export function slowHostcalls(names: readonly string[], work: ExtraWork): HostcallTable {
  const handlers = hostcalls as Record<string, Handler>;
  const slower = (name: string): Handler => {
    const handler = handlers[name];
    if (handler === undefined) throw new Error(`${name} is not a hostcall that can be slowed down`);
    // Of fixed arity, as the calls of handlers are: rest parameters would cost more than the work.
    return (guest, a, b, c, d, e) => {
      const result = handler(guest, a, b, c, d, e);
      spin(work.turns);
      return result;
    };
  };
  return { ...hostcalls, ...Object.fromEntries(names.map((name) => [name, slower(name)])) };
}

/** The hostcall that a figure is named after. */
export const callOf = (figure: string): string => figure.split(/[ (,]/, 1)[0] as string;

const FIRST_GUESS = 50;
const CORRECTIONS = 4;
const LEAST_ADDED = 0.01;

/**
 * Finds the work with which each figure has its wanted ratio. By trial: the processor does part of the work while it
 * does something else, so the price of one turn says little. Not in nanoseconds: the machine may be busy now.
 */
export async function findWork(
  wanted: Ratios,
  turns: Record<string, number>,
  measure: () => Promise<Ratios>,
): Promise<void> {
  if (Object.keys(wanted).length === 0) return;
  const idle = await measure();
  for (const name of Object.keys(wanted)) turns[name] = Number(idle[name]) < Number(wanted[name]) ? FIRST_GUESS : 0;
  for (let again = 0; again < CORRECTIONS; again++) {
    const found = await measure();
    for (const [name, before] of Object.entries(turns)) {
      if (before === 0) continue;
      const added = Math.max(LEAST_ADDED, Number(found[name]) - Number(idle[name]));
      const missing = Number(wanted[name]) - Number(idle[name]);
      turns[name] = Math.max(1, Math.round((before * missing) / added));
    }
  }
}
