import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { describe, expect, it } from 'vitest';
import { compileLimits } from '../../../../src/runtime/port/limits.ts';
import { boundMemory } from '../../../../src/runtime/wasm/bound-memory.ts';
import { addYieldPoints } from '../../../../src/runtime/wasm/preemption/add-yield-points.ts';
import {
  entryYieldPoints,
  type FunctionShape,
  MAX_UNINTERRUPTED,
} from '../../../../src/runtime/wasm/preemption/yield-code.ts';
import { readSections, section, WasmReader } from '../../../../src/runtime/wasm/wasm-binary.ts';
import { type Ticks, withEveryLook } from './both-ways.ts';
import { dice } from './random-module.ts';

const calling = (...calls: number[]): FunctionShape => ({ calls, callsOut: false, cost: 3 });

/** What a function may do before the next look, whatever way it goes; throws for what need not end. */
function unseen(functions: readonly FunctionShape[], looks: readonly boolean[], index: number, depth = 0): number {
  if (depth > functions.length) throw new Error('a circle of calls without a look');
  const { calls, cost } = functions[index] as FunctionShape;
  return calls.reduce((sum, call) => (looks[call] ? sum : sum + unseen(functions, looks, call, depth + 1)), cost);
}

describe('which functions look at their beginning', () => {
  it.each([
    ['none that ends by itself', [calling(1, 2, 2), calling(2), calling()], [false, false, false]],
    ['one that calls itself', [calling(0)], [true]],
    ['one of a circle', [calling(1), calling(2), calling(0)], [true, false, false]],
    ['one of each of two circles that meet', [calling(1, 2), calling(0), calling(2)], [true, false, true]],
    ['one that calls what nobody knows', [calling(1), { ...calling(), callsOut: true }], [false, true]],
    ['one that is long', [calling(1), { ...calling(), cost: MAX_UNINTERRUPTED + 1 }], [false, true]],
    ['one that is long together with what it calls', [calling(1, 1), { ...calling(), cost: 500 }], [true, false]],
  ])('%s', (_name, functions, expected) => {
    expect(entryYieldPoints(functions)).toEqual(expected);
  });

  it('at every so many steps of a tree that branches at each', () => {
    const tree = Array.from({ length: 60 }, (_, index) => (index === 59 ? calling() : calling(index + 1, index + 1)));
    const looks = entryYieldPoints(tree);
    for (const index of tree.keys()) {
      expect(looks[index] || unseen(tree, looks, index) <= MAX_UNINTERRUPTED, `function ${index}`).toBe(true);
    }
  });

  it('of a chain of a hundred thousand', () => {
    const chain = Array.from({ length: 100_000 }, (_, index) => calling(...(index === 99_999 ? [] : [index + 1])));
    expect(entryYieldPoints(chain).filter(Boolean).length).toBe(Math.floor((100_000 * 3) / (MAX_UNINTERRUPTED + 2)));
  });

  it('so that no call goes on for longer without, however they call each other: 500 random graphs', () => {
    for (let seed = 1; seed <= 500; seed++) {
      const roll = dice(seed);
      const count = 1 + roll(12);
      const functions = Array.from({ length: count }, () => ({
        calls: Array.from({ length: roll(4) }, () => roll(count)),
        callsOut: roll(10) === 0,
        cost: roll(20) === 0 ? 900 : 1 + roll(200),
      }));
      const looks = entryYieldPoints(functions);
      for (const [index, { callsOut }] of functions.entries()) {
        if (callsOut) expect(looks[index]).toBe(true);
        if (!looks[index])
          expect(unseen(functions, looks, index), `seed ${seed}`).toBeLessThanOrEqual(MAX_UNINTERRUPTED);
      }
    }
  });
});

const see = '(import "test" "see" (func $see (param i32 i32) (result i32)))';

describe('a module looks', () => {
  it.each([
    [
      'in calls by table',
      `(type $t (func (param i32) (result i32))) (table 1 funcref) (elem (i32.const 0) $f)
      (func $f (export "run") (type $t) (if (result i32) (local.get 0)
        (then (call_indirect (type $t) (i32.sub (local.get 0) (i32.const 1)) (i32.const 0))) (else (i32.const 7))))`,
      6,
    ],
    [
      'in calls by reference',
      `(type $t (func (param i32) (result i32))) (elem declare func $f)
      (func $f (export "run") (type $t) (if (result i32) (local.get 0)
        (then (call_ref $t (i32.sub (local.get 0) (i32.const 1)) (ref.func $f))) (else (i32.const 7))))`,
      6,
    ],
    [
      'in calls that take the place of their caller',
      `(func $f (export "run") (param i32) (result i32)
      (if (result i32) (local.get 0) (then (return_call $f (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 7))))`,
      6,
    ],
    [
      'where an import is called',
      `(func (export "run") (param i32) (result i32) (call $see (i32.const 1) (i32.const 2)))`,
      1,
    ],
    [
      'wherever memory is filled, which may take long',
      `(memory (export "memory") 1)
      (func $fill (memory.fill (i32.const 0) (i32.const 7) (i32.const 9)))
      (func (export "run") (param i32) (result i32) (call $fill) (call $fill) (i32.const 1))`,
      2,
    ],
    [
      'nowhere, if it must end soon',
      `(func $one (result i32) (i32.const 1))
      (func (export "run") (param i32) (result i32) (call $one))`,
      0,
    ],
  ])('%s [threads.pass]', async (_name, body, expected) => {
    const ticks: Ticks = { count: 0 };
    await withEveryLook(await parse(`(module ${see} ${body})`), 'run', [5], ticks);
    expect(ticks.count).toBe(expected);
  });

  it('and tells the engine which branches these are', async () => {
    const bytes = await parse(`(module ${see} (func $leaf) (func $twice (local i64 f32) (loop $l (call $twice)
      (loop $m (br_if $m (call $see (i32.const 4) (i32.const 64))))) (call $leaf)) (func (export "run") (call $twice)))`);
    const turned = addYieldPoints(boundMemory(bytes, compileLimits()), true)?.bytes ?? bytes;
    const sections = readSections(turned);
    const functions = new WasmReader(sections.find(({ id }) => id === section.code)?.body ?? bytes);
    const bodies = functions.vector(() => functions.slice(functions.unsigned()));
    const at = sections.findIndex(
      ({ id, body }) => id === section.custom && new WasmReader(body).name().includes('hint'),
    );
    expect(sections[at + 1]?.id).toBe(section.code);
    const hints = new WasmReader(sections[at]?.body ?? bytes);
    hints.name();
    const found = hints.vector(() => {
      const body = bodies[hints.unsigned() - 2] as Uint8Array;
      return hints.vector(() => {
        const branch = hints.unsigned();
        expect([hints.byte(), hints.byte()]).toEqual([1, 0]);
        return [...body.subarray(branch, branch + 2)];
      });
    });
    const branch = [0x04, 0x40];
    expect(found).toEqual([[branch, branch, branch]]);
  });
});
