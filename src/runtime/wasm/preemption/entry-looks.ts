/** What a function may do between two looks of its loops. */
export interface FunctionShape {
  /** The module's own functions that it calls by number, each as often as it does. */
  readonly calls: readonly number[];
  /** Whether it calls what cannot be told: an import, which may call back, or what a table or a reference holds. */
  readonly callsOut: boolean;
  /** Instructions, each counted once. */
  readonly cost: number;
}

/** Instructions that may run on without a look: about a microsecond's worth. */
export const MAX_UNSEEN = 1_000;

const OPEN = 1;
const DONE = 2;

/**
 * Which functions look at their beginning: those that call what cannot be told, one at least of every circle of calls, and
 * those that with all they call may go on for longer than {@link MAX_UNSEEN}, also by calls that branch at each step.
 * What they call that looks by itself is not counted.
 */
export function entryLooks(functions: readonly FunctionShape[]): boolean[] {
  const looks = functions.map(({ callsOut }) => callsOut);
  const costs = Float64Array.from(functions, ({ cost }) => cost);
  const states = new Uint8Array(functions.length);
  const path: { readonly index: number; readonly calls: readonly number[]; next: number }[] = [];
  const open = (index: number) => {
    states[index] = OPEN;
    path.push({ index, calls: (functions[index] as FunctionShape).calls, next: 0 });
  };

  for (const root of functions.keys()) {
    if (states[root] === DONE || looks[root]) continue;
    open(root);
    // Not by recursion: a chain of calls may be as long as the module.
    for (let top = path.at(-1); top; top = path.at(-1)) {
      const { index, calls } = top;
      const called = calls[top.next];
      if (called === undefined) {
        states[index] = DONE;
        if ((costs[index] as number) > MAX_UNSEEN) looks[index] = true;
        path.pop();
      } else if (looks[called]) top.next += 1;
      else if (states[called] === OPEN) looks[called] = true;
      else if (states[called] !== DONE) open(called);
      else {
        costs[index] = (costs[index] as number) + (costs[called] as number);
        top.next += 1;
      }
    }
  }
  return looks;
}
