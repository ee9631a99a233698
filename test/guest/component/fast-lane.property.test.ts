import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Call, calls } from '../../../src/abi/calls.ts';
import { errnoNames } from '../../../src/abi/errno.ts';
import { interfaceName, type WitFunction, witFunctions } from '../../../src/abi/wit.ts';
import { newCounts } from '../../../src/guest/binding/hostcall-counts.ts';
import { instantiateInFastLane } from '../../../src/guest/component/fast-lane.ts';
import { hostcalls } from '../../../src/hostcalls/all.ts';
import { flatParams, flatResult, hasReturnArea, importText, resultText } from '../../support/guest-text.ts';
import { TestGuest } from '../../support/test-guest.ts';

const RUNS = 120;
const CALLS_PER_RUN = 200;
/** Always the same calls: a failure prints the seed and the path to the smallest run that fails. */
const SEED = 51_109;

const PAGES = 2;
const BYTES = PAGES * 65_536;
/** The second page is what the guest's allocator gives out. */
const HEAP = 65_536;
const AREA = 1024;

const rows = new Map<string, Call>(calls.map((row) => [row.name, row]));

/** Passes its parameters on as they are. Memory and allocator are the test's, which sees what is done with them. */
const passingOn = parse(`(module
  (import "env" "memory" (memory ${PAGES}))
  (import "env" "cabi_realloc" (func (param i32 i32 i32 i32) (result i32)))
  ${witFunctions.map(importText).join('\n')}
  ${witFunctions.map(exportText).join('\n')})`);

function exportText(fn: WitFunction): string {
  const params = [...flatParams(fn), ...(hasReturnArea(fn) ? ['i32'] : [])];
  const given = params.map((_, index) => `(local.get ${index})`).join(' ');
  const result = hasReturnArea(fn) ? '' : resultText(flatResult(fn));
  return `(func (export "${fn.name}") (param ${params.join(' ')}) ${result} (call $${fn.name} ${given}))`;
}

const anyI32 = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: -2, max: 8 }) },
  { weight: 1, arbitrary: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }) },
);
const descriptor = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 1000, max: 1040 }) },
  { weight: 1, arbitrary: anyI32 },
);
const pointer = fc.oneof(
  { weight: 6, arbitrary: fc.nat({ max: BYTES - 1 }) },
  { weight: 2, arbitrary: fc.integer({ min: BYTES - 13, max: BYTES + 1 }) },
  { weight: 1, arbitrary: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }) },
);
const length = fc.oneof(
  { weight: 8, arbitrary: fc.nat({ max: 64 }) },
  { weight: 2, arbitrary: fc.constantFrom(0, 4097, 16_385, 70_000) },
  { weight: 1, arbitrary: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }) },
);
const area = fc.oneof(
  { weight: 12, arbitrary: fc.constant(AREA) },
  { weight: 1, arbitrary: pointer },
  { weight: 1, arbitrary: fc.integer({ min: AREA, max: AREA + 8 }) },
);
/** What the allocator answers: mostly what it should. */
const allocation = fc.oneof({ weight: 12, arbitrary: fc.constant('fits' as const) }, { weight: 1, arbitrary: pointer });
/** No call of these tests waits for longer. */
const shortWait = fc.constantFrom(0, 1, -5);

function randomParams(fn: WitFunction): fc.Arbitrary<number[]> {
  const params = fn.params.flatMap(({ name, type }): fc.Arbitrary<number>[] => {
    if (type === 'string' || type === 'list<u8>') return [pointer, length];
    if (name === 'ms') return [shortWait];
    if (name === 'timeout-ms') return [fc.constantFrom(0, 1)];
    return [type === 'fd' ? descriptor : anyI32];
  });
  return fc.tuple(...params, ...(hasReturnArea(fn) ? [area] : [])) as fc.Arbitrary<number[]>;
}

const randomCall = fc
  .constantFrom(...witFunctions)
  .chain((fn) => fc.record({ fn: fc.constant(fn), params: randomParams(fn), answer: allocation }));
type RandomCall = typeof randomCall extends fc.Arbitrary<infer T> ? T : never;

const seen = new Map<string, number>();

it('whatever a component passes, a call gives a documented result or ends it, and writes nowhere else [abi.fuzz]', {
  timeout: 120_000,
}, async () => {
  const module = new WebAssembly.Module(await passingOn);
  const runs = fc.array(randomCall, { minLength: 1, maxLength: CALLS_PER_RUN, size: 'max' });
  await fc.assert(
    fc.asyncProperty(runs, (random) => runCalls(module, random)),
    { seed: SEED, numRuns: RUNS },
  );
  expect(witFunctions.map(({ name }) => name).filter((name) => !seen.has(name))).toEqual([]);
  expect(seen.get('trap')).toBeGreaterThan(500);
  expect(seen.get('ok')).toBeGreaterThan(500);
  expect(seen.get('errno')).toBeGreaterThan(500);
});

async function runCalls(module: WebAssembly.Module, random: readonly RandomCall[]): Promise<void> {
  const guest = await TestGuest.open({ limits: { max_fds: 32, max_sessions: 16, max_session_bytes: 16_384 } });
  const memory = new WebAssembly.Memory({ initial: PAGES });
  let answer: RandomCall['answer'] = 'fits';
  let taken: [from: number, to: number][] = [];
  const allocate = (_old: number, _size: number, _align: number, size: number): number => {
    const ptr = answer === 'fits' ? HEAP : answer;
    taken.push([ptr >>> 0, (ptr >>> 0) + size]);
    return ptr;
  };
  const { exports } = instantiateInFastLane({ table: hostcalls, guest: guest.state, counts: newCounts() }, module, {
    env: { memory, cabi_realloc: allocate },
    ...stubs(module),
  });
  try {
    for (const call of random) {
      answer = call.answer;
      taken = [];
      const before = Buffer.from(memory.buffer.slice(0));
      const outcome = await make(exports, call);
      const allowed = outcome === 'trap' ? [] : [...taken, ...(hasReturnArea(call.fn) ? [areaOf(call)] : [])];
      check(call, outcome, before, Buffer.from(memory.buffer), allowed);
      for (const key of [call.fn.name, outcome]) seen.set(key, (seen.get(key) ?? 0) + 1);
      Buffer.from(memory.buffer).fill(0, AREA, AREA + 16);
      guest.output.length = 0;
    }
  } finally {
    await guest.close();
  }
}

type Outcome = 'trap' | 'ok' | 'errno' | 'direct';

async function make(exports: WebAssembly.Instance['exports'], { fn, params }: RandomCall): Promise<Outcome> {
  try {
    await WebAssembly.promising(exports[fn.name] as WebAssembly.GuestFunction)(...params);
    return hasReturnArea(fn) ? 'ok' : 'direct';
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) return 'trap';
    throw error;
  }
}

const areaOf = ({ params }: RandomCall): [number, number] => [
  (params.at(-1) ?? 0) >>> 0,
  ((params.at(-1) ?? 0) >>> 0) + 12,
];

function check(
  { fn, params }: RandomCall,
  outcome: Outcome,
  before: Buffer,
  after: Buffer,
  allowed: readonly [number, number][],
): void {
  const called = `${fn.name}(${params.join(', ')})`;
  for (const [from, to] of allowed) after.copy(before, from, from, to);
  if (outcome !== 'trap' && !before.equals(after)) throw new Error(`${called} wrote outside of its result`);
  if (outcome !== 'ok') return;
  const at = (params.at(-1) ?? 0) >>> 0;
  const which = after.readUInt8(at);
  if (which > 1) throw new Error(`${called} gave neither ok nor an errno`);
  if (which === 0) return;
  const name = errnoNames[after.readUInt8(at + (fn.value === 'none' ? 1 : 4))];
  const documented = Object.keys(rows.get(fn.call)?.errnos ?? {});
  if (!name || !documented.includes(name)) throw new Error(`${called} gave ${name}, which its row does not have`);
  seen.set('errno', (seen.get('errno') ?? 0) + 1);
}

/** What jco would have passed: nothing of it may be reached. */
function stubs(module: WebAssembly.Module): WebAssembly.Imports {
  const reached = () => {
    throw new Error('the guest reached the glue');
  };
  const names = new Set(witFunctions.map((fn) => interfaceName(fn.interface)));
  const wanted = WebAssembly.Module.imports(module);
  return Object.fromEntries(
    [...names].map((from) => [
      from,
      Object.fromEntries(wanted.filter((one) => one.module === from).map(({ name }) => [name, reached])),
    ]),
  );
}
