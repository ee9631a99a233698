import { readdirSync, readFileSync } from 'node:fs';
import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { describe, expect, it } from 'vitest';
import { compileLimits } from '../../../../src/runtime/port/limits.ts';
import { boundMemory } from '../../../../src/runtime/wasm/bound-memory.ts';
import { readInstruction } from '../../../../src/runtime/wasm/instructions.ts';
import { addYieldPoints } from '../../../../src/runtime/wasm/preemption/add-yield-points.ts';
import { prepare } from '../../../../src/runtime/wasm/prepare.ts';
import { WasmReader } from '../../../../src/runtime/wasm/wasm-binary.ts';
import { asItIs, type Ticks, withEveryLook } from './both-ways.ts';
import { randomModule } from './random-module.ts';
import { namesPastTheEnd } from './valid-after-pass.ts';

const RANDOM_MODULES = Number(process.env.SPEAR_RANDOM_MODULES ?? 300);

const features: Readonly<Record<string, string>> = {
  'a loop': `(func (export "run") (param i32) (result i32) (local $sum i32)
    (loop $l (local.set $sum (i32.add (local.get $sum) (local.get 0)))
      (br_if $l (i32.gt_s (local.tee 0 (i32.sub (local.get 0) (i32.const 1))) (i32.const 0)))) (local.get $sum))`,
  recursion: `(func $fib (param i32) (result i32) (if (result i32) (i32.lt_s (local.get 0) (i32.const 2))
      (then (local.get 0)) (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1)))
        (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
    (func (export "run") (param i32) (result i32) (call $fib (local.get 0)))`,
  'tail calls': `(func $down (param i32 i32) (result i32) (if (result i32) (local.get 0)
      (then (return_call $down (i32.sub (local.get 0) (i32.const 1)) (i32.add (local.get 1) (i32.const 2))))
      (else (local.get 1))))
    (func (export "run") (param i32) (result i32) (return_call $down (i32.const 100000) (local.get 0)))`,
  'tail calls by table': `(type $t (func (param i32) (result i32))) (table 2 funcref) (elem (i32.const 0) $a $b)
    (func $a (type $t) (i32.add (local.get 0) (i32.const 1)))
    (func $b (type $t) (return_call_indirect (type $t) (local.get 0) (i32.const 0)))
    (func (export "run") (type $t) (call_indirect (type $t) (local.get 0) (i32.const 1)))`,
  'exceptions, as they were first': `(tag $e (param i32))
    (func $throws (param i32) (if (local.get 0) (then (throw $e (local.get 0)))))
    (func (export "run") (param i32) (result i32)
      try (result i32) local.get 0 call $throws i32.const 1
      catch $e i32.const 100 i32.add catch_all i32.const 7 end)`,
  'exceptions, as they are now': `(tag $e (param i32))
    (func $throws (param i32) (if (local.get 0) (then (throw $e (local.get 0)))))
    (func (export "run") (param i32) (result i32) (block $h (result i32)
      (try_table (catch $e $h) (call $throws (local.get 0))) (i32.const 1)))`,
  'an exception that nobody catches': `(tag $e) (func $t (throw $e))
    (func (export "run") (param i32) (result i32) (call $t) (i32.const 1))`,
  'traps in a loop': `(func (export "run") (param i32) (result i32)
      (loop $l (br_if $l (i32.div_s (i32.const 10) (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))) (i32.const 1))`,
  'several values': `(func $two (param i32) (result i32 i32) (local.get 0) (i32.const 5))
    (func (export "run") (param i32) (result i32) (call $two (local.get 0))
      (loop $l (param i32 i32) (result i32) (i32.add)))`,
  'bulk memory': `(memory (export "memory") 1) (data $d "abcdef")
    (func (export "run") (param i32) (result i32) (memory.init $d (i32.const 8) (i32.const 0) (i32.const 6))
      (memory.copy (i32.const 100) (i32.const 8) (i32.const 6)) (memory.fill (i32.const 200) (i32.const 9) (i32.const 9))
      (data.drop $d) (i32.load8_u (i32.const 103)))`,
  'growing memory to its limit': `(memory (export "memory") 1)
    (func (export "run") (param i32) (result i32) (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
      (memory.size))`,
  SIMD: `(memory (export "memory") 1) (func (export "run") (param i32) (result i32)
      (v128.store (i32.const 32) (i8x16.shuffle 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 31
        (v128.const i32x4 1 2 3 4) (i32x4.splat (local.get 0))))
      (v128.store8_lane 3 (i32.const 80) (v128.load8_splat (i32.const 32)))
      (i32x4.extract_lane 2 (v128.load (i32.const 32))))`,
  'references of functions': `(type $t (func (param i32) (result i32))) (table $a 4 funcref) (table $b 4 funcref)
    (elem $p func $f $g) (elem declare func $g) (elem (table $b) (i32.const 1) func $f)
    (elem $x funcref (ref.func $g) (ref.null func)) (elem (table $a) (i32.const 3) funcref (item (ref.func $g)))
    (global $r (mut funcref) (ref.func $f))
    (func $f (type $t) (i32.add (local.get 0) (i32.const 1))) (func $g (type $t) (i32.mul (local.get 0) (i32.const 3)))
    (func (export "run") (type $t) (table.init $a $p (i32.const 0) (i32.const 0) (i32.const 2))
      (table.set $b (i32.const 2) (ref.func $g)) (table.set $b (i32.const 3) (global.get $r))
      (table.copy $a $b (i32.const 2) (i32.const 2) (i32.const 2)) (elem.drop $p)
      (drop (table.grow $b (ref.func $f) (i32.const 2)))
      (call_indirect $a (type $t) (call_indirect $b (type $t) (call_indirect $a (type $t) (local.get 0) (i32.const 2))
        (i32.const 5)) (i32.const 1)))`,
  'calls by reference': `(type $t (func (param i32) (result i32))) (elem declare func $f)
    (func $f (type $t) (i32.add (local.get 0) (i32.const 1)))
    (func (export "run") (type $t) (call_ref $t (local.get 0) (ref.func $f)))`,
  'a start': `(memory (export "memory") 1) (global $g (export "g") (mut i32) (i32.const 0)) (start $s)
    (func $s (loop $l (global.set $g (i32.add (global.get $g) (i32.const 1)))
      (br_if $l (i32.lt_s (global.get $g) (i32.const 9)))) (i32.store (i32.const 0) (call $see (global.get $g) (i32.const 1))))
    (func (export "run") (param i32) (result i32) (i32.add (global.get $g) (i32.load (i32.const 0))))`,
  'no memory': '(func (export "run") (param i32) (result i32) (call $see (local.get 0) (i32.const 2)))',
  'an import that is exported': '(export "run" (func $see1)) (func (call $none)) (func $none)',
};

const text = (body: string) =>
  `(module ${body.includes('(import') ? '' : '(import "test" "see" (func $see (param i32 i32) (result i32)))'}
    (import "test" "see" (func $see1 (param i32) (result i32))) ${body})`;

describe('a module that gives way does what it did before', () => {
  it.each(Object.entries(features))('with %s [threads.pass]', async (_name, body) => {
    const bytes = await parse(text(body));
    for (const arg of [5, 0, 1]) {
      expect(await withEveryLook(bytes, 'run', [arg])).toEqual(await asItIs(bytes, 'run', [arg]));
    }
  });

  it(`whatever it is: ${RANDOM_MODULES} random modules [threads.pass]`, async () => {
    const ticks: Ticks = { count: 0 };
    const endings = new Set<string>();
    for (let seed = 1; seed <= RANDOM_MODULES; seed++) {
      const source = randomModule(seed);
      const bytes = await parse(source);
      const expected = await asItIs(bytes, 'run', [seed]);
      endings.add(expected.result.replace(/-?\d+/, ''));
      expect(await withEveryLook(bytes, 'run', [seed], ticks), `seed ${seed}\n${source}`).toEqual(expected);
    }
    expect(ticks.count).toBeGreaterThan(RANDOM_MODULES);
    expect(endings.size).toBeGreaterThan(1);
  });

  it('and looks at every loop and in every circle of calls', async () => {
    const ticks: Ticks = { count: 0 };
    await withEveryLook(await parse(text(features['a loop'] as string)), 'run', [50], ticks);
    expect(ticks.count).toBe(50);
    ticks.count = 0;
    await withEveryLook(await parse(text(features.recursion as string)), 'run', [6], ticks);
    expect(ticks.count).toBe(25); // as often as fib is called
  });
});

describe('names', () => {
  it('stay those of their functions, so that a trap tells where it was', async () => {
    const bytes = await parse(
      text(
        '(func $inner_one (unreachable)) (func $outer_one (export "run") (param i32) (result i32) (call $inner_one) (i32.const 1))',
      ),
    );
    const turned = addYieldPoints(boundMemory(bytes, compileLimits()), true);
    const names = Buffer.from(
      WebAssembly.Module.customSections(new WebAssembly.Module(turned?.bytes ?? bytes), 'name')[0] ?? new ArrayBuffer(),
    );
    // The function after the two imports and our own has the number 3.
    expect(names.toString('latin1')).toContain('\x03\x09inner_one\x04\x09outer_one');
  });
});

describe('what it does not know it leaves alone', () => {
  const limits = compileLimits();
  const options = { limits, allowUnknownImports: true, preemptible: true };

  it.each([
    [
      'an import of its own name',
      '(import "spear:turns" "tick" (func)) (memory (export "memory") 1) (func (export "run"))',
    ],
  ])('%s: the module is compiled as it is, and says why it must not be shared [threads.pass]', async (_name, body) => {
    const prepared = await prepare(await parse(`(module ${body})`), options);
    expect(prepared).toMatchObject({
      turns: null,
      unshareable: expect.stringContaining('yield points cannot be added'),
    });
  });

  it('an instruction that nobody knows', () => {
    expect(() => readInstruction(new WasmReader(Uint8Array.of(0xf0)))).toThrow('unknown instruction');
  });

  it('a module that is cut off anywhere', async () => {
    const bytes = boundMemory(await parse(text(features['references of functions'] as string)), limits);
    for (let length = 8; length < bytes.byteLength; length += 3) {
      const cut = bytes.subarray(0, length);
      if (WebAssembly.validate(cut)) continue;
      try {
        const turned = addYieldPoints(cut, true);
        if (turned !== null) expect(WebAssembly.validate(turned.bytes)).toBe(false);
      } catch (error) {
        expect((error as Error).name).toBe('ModuleError');
      }
    }
  });
});

describe('a module that is invalid as written', () => {
  const options = { limits: compileLimits(), allowUnknownImports: true, preemptible: true };

  it.each(Object.entries(namesPastTheEnd))(
    'and names %s past the end is rejected, though the pass may add one [threads.validated]',
    async (_name, body) => {
      const bytes = await parse(`(module ${body})`);
      await expect(prepare(bytes, options)).rejects.toThrow('the module does not compile');
    },
  );

  it('because its sections are out of order is rejected, though the pass orders them [threads.validated]', async () => {
    const [preamble, global, type, code] = [
      [0, 97, 115, 109, 1, 0, 0, 0],
      [6, 6, 1, 0x7f, 0, 0x41, 0, 0x0b],
      [1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 7, 7, 1, 3, 0x72, 0x75, 0x6e, 0, 0],
      [10, 4, 1, 2, 0, 0x0b],
    ];
    const bytes = Uint8Array.from([preamble, global, type, code].flat() as number[]);
    await expect(prepare(bytes, options)).rejects.toThrow('the module does not compile');
  });
});

describe('the guests of all toolchains', () => {
  const root = new URL('../../../../fixtures/', import.meta.url);
  const files = ['c', 'rust', 'assemblyscript'].flatMap((folder) =>
    readdirSync(new URL(folder, root))
      .filter((name) => /^\w+\.wasm$/.test(name))
      .map((name) => `${folder}/${name}`),
  );

  it.each(files)('%s can be shared [threads.pass]', async (file) => {
    const bytes = readFileSync(new URL(file, root));
    const prepared = await prepare(bytes, { limits: compileLimits(), allowUnknownImports: false, preemptible: true });
    expect(prepared).toMatchObject({ unshareable: null, turns: { memory: { maximum: 4096 } } });
  });
});
