import { compileLimits } from '../../../../src/runtime/port/limits.ts';
import { PREEMPTION_MODULE, START_EXPORT } from '../../../../src/runtime/port/preemption.ts';
import { boundMemory } from '../../../../src/runtime/wasm/bound-memory.ts';
import { addYieldPoints } from '../../../../src/runtime/wasm/preemption/add-yield-points.ts';

/** What a call came to, and what it left behind. */
export interface Outcome {
  readonly result: string;
  readonly memory: string;
  readonly globals: readonly string[];
  /** What its imports were called with. */
  readonly seen: readonly string[];
}

export interface Ticks {
  count: number;
}

const limits = compileLimits({ memory_bytes: 64 * 65_536, table_elements: 10_000 });

type Args = readonly (number | bigint)[];

/** The module as it is. */
export async function asItIs(bytes: Uint8Array, entry: string, args: Args = []): Promise<Outcome> {
  const module = new WebAssembly.Module(boundMemory(bytes, limits));
  return outcome(module, entry, args, {}, false);
}

/** The same module, which is told at every look to give way and is suspended every third time. */
export async function withEveryLook(
  bytes: Uint8Array,
  entry: string,
  args: Args = [],
  ticks: Ticks = { count: 0 },
): Promise<Outcome> {
  const turned = addYieldPoints(boundMemory(bytes, limits), true);
  if (turned === null) throw new Error('the module has no code');
  const turns = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  Atomics.store(new Int32Array(turns.buffer), 0, 1);
  const tick = new WebAssembly.Suspending(() => {
    ticks.count += 1;
    return ticks.count % 3 === 0 ? Promise.resolve() : undefined;
  });
  const own = turned.memory === null ? {} : { memory: new WebAssembly.Memory({ ...turned.memory }) };
  const imports = { [PREEMPTION_MODULE]: { tick, turns, ...own } };
  return outcome(new WebAssembly.Module(turned.bytes), entry, args, imports, turned.hasStart);
}

async function outcome(
  module: WebAssembly.Module,
  entry: string,
  args: Args,
  more: WebAssembly.Imports,
  hasStart: boolean,
): Promise<Outcome> {
  const seen: string[] = [];
  const see = (...given: unknown[]) => {
    seen.push(given.join(' '));
    return given.length;
  };
  const { exports } = new WebAssembly.Instance(module, { ...more, test: { see } });
  if (hasStart) await WebAssembly.promising(exports[START_EXPORT] as WebAssembly.GuestFunction)();
  const enter = WebAssembly.promising(exports[entry] as WebAssembly.GuestFunction);
  const result = await enter(...args).then(
    (value) => `gave ${String(value)}`,
    (error: unknown) => (error instanceof WebAssembly.RuntimeError ? `trapped: ${error.message}` : `threw ${error}`),
  );
  const { memory } = exports;
  const bytes = memory instanceof WebAssembly.Memory ? Buffer.from(memory.buffer) : Buffer.alloc(0);
  const globals = Object.entries(exports)
    .filter(([, value]) => value instanceof WebAssembly.Global)
    .map(([name, value]) => `${name} ${String((value as WebAssembly.Global).value)}`);
  return { result, memory: `${bytes.byteLength} ${hash(bytes)}`, globals, seen };
}

function hash(bytes: Uint8Array): number {
  let sum = 0;
  for (let at = 0; at < bytes.byteLength; at++) sum = (Math.imul(sum, 31) + (bytes[at] as number)) | 0;
  return sum;
}
