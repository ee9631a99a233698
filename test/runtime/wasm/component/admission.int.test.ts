import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { ModuleError } from '../../../../src/runtime/abi/guest-module.ts';
import { readComponent, withoutCustomSections } from '../../../../src/runtime/wasm/component/component-binary.ts';
import { MAX_NESTING } from '../../../../src/runtime/wasm/component/component-reader.ts';
import { chooseLane } from '../../../../src/runtime/wasm/component/fast-lane-proof.ts';
import { checkImports, entryOf } from '../../../../src/runtime/wasm/component/import-check.ts';
import { linkComponent } from '../../../../src/runtime/wasm/component/link-component.ts';
import { transpile } from '../../../../src/runtime/wasm/component/transpile.ts';
import { unsignedLeb } from '../../../../src/runtime/wasm/wasm-binary.ts';
import { buildComponent, dummyComponent, fromText, logging } from '../../../support/component-text.ts';
import { adapted } from '../../../support/guest-text.ts';
import { component, otherPlacesOfNames, placesOfNames } from './admission-samples.ts';

const GENEROUS_MS = 120_000;

function complaint(bytes: Uint8Array): string {
  try {
    linkComponent(readComponent(bytes));
  } catch (error) {
    if (error instanceof ModuleError) return error.message;
    throw error;
  }
  return 'admitted';
}

/** What jco would make of it. It is looked at, never run. */
async function generated(bytes: Uint8Array): Promise<string> {
  const options = { bytes, asyncImports: [], asyncExports: ['run'] };
  return (await transpile(options, GENEROUS_MS, new AbortController().signal)).glue;
}

const PAYLOAD = "f'+globalThis.stolen()+'";

describe('a name that would become code', () => {
  it.each(Object.entries(placesOfNames))('%s [component.admission]', { timeout: GENEROUS_MS }, async (_place, body) => {
    const attack = await component(body(PAYLOAD));
    // The danger is real: the quote ends the string that jco meant to write, and a call stands in the code.
    expect(await generated(attack)).toContain("'f'+globalThis.stolen()+''");
    expect(complaint(attack)).toBe(`the component has a name that is not allowed: ${JSON.stringify(PAYLOAD)}`);
    expect(complaint(await component(body('fine')))).toBe('admitted');
  });

  it.each(Object.entries(otherPlacesOfNames))('%s [component.admission]', async (_place, body) => {
    expect(complaint(await lenient(body))).toContain('the component has a name that is not allowed');
  });

  /** The text format refuses some names itself, so a harmless one of the same length is exchanged afterwards. */
  async function lenient(body: (name: string) => string): Promise<Uint8Array> {
    const harmless = `a${'b'.repeat(PAYLOAD.length - 1)}`;
    const text = Buffer.from(await component(body(harmless))).toString('latin1');
    expect(text).toContain(harmless);
    return Buffer.from(text.replaceAll(harmless, PAYLOAD), 'latin1');
  }

  const named = placesOfNames['an export of a core module'] ?? String;

  it.each([
    ["a'b", 'a quote'],
    ['a"b', 'a double quote'],
    ['a`b', 'a backtick'],
    ['a\nb', 'a newline'],
    ['a\rb', 'a carriage return'],
    ['a\u2028b', 'a line separator'],
    ['a*/b', 'the end of a comment'],
    ['a//b\\', 'a backslash'],
    ['a\0b', 'a zero'],
    ['ａ', 'a letter of another script'],
    ['a\u202eb', 'a change of direction'],
    ['a(b', 'a bracket'],
    ['a{b', 'a brace'],
    ['a;b', 'a semicolon'],
    ['a=b', 'an equals sign'],
    ['a<b', 'an angle'],
    ['a+b', 'a plus'],
    ['a,b', 'a comma'],
    ['a~b', 'a tilde'],
    ['\ud83d\ude00', 'a surrogate pair'],
    ['__proto__', 'a name of every object'],
    ['then', 'a name of every promise'],
    ['a'.repeat(1025), 'one without end'],
  ])('%j: %s [component.admission]', async (name) => {
    expect(complaint(await component(named(name)))).toMatch(
      /the component has a name (that is not allowed|of 1025 bytes)/,
    );
  });

  it('what a refused name says about itself cannot write to the terminal [component.admission]', async () => {
    const message = complaint(await component(named('\u001b[31m\u009b\n"')));
    expect(message).toMatch(/^[\x20-\x7e]+$/);
  });

  it.each([
    'wasi:cli/run@0.2.3#run',
    'cm32p2|spear:host/cchat@1',
    'cm32p2||run_post',
    '[method]output-stream.blocking-write-and-flush',
    '[export]$root',
    '$imports',
    'GOT.func',
    'runtime.wasm:memory_base',
    '_initialize',
    '',
  ])('%j is what toolchains write, and passes [component.admission]', async (name) => {
    expect(complaint(await component(named(name)))).toBe('admitted');
  });
});

describe('what toolchains build is admitted', () => {
  it('by wit-component, by the adapter for preview 1, and nested [component.admission]', async () => {
    expect(complaint(await buildComponent(logging('hello')))).toBe('admitted');
    expect(complaint(await dummyComponent())).toBe('admitted');
    const program = await adapted('(module (memory (export "memory") 1) (func (export "_start")))');
    expect(complaint(program)).toBe('admitted');
    expect(complaint(await component(`(component $n ${placesOfNames['an export of a core module']?.('f')})`))).toBe(
      'admitted',
    );
  });
});

describe('inside of a component as outside of it', () => {
  it.each([
    ['struct types', '(type (struct (field i32)))', 'struct or array types'],
    ['array types', '(type (array i32))', 'struct or array types'],
    ['a shared memory', '(memory 1 1 shared)', 'shared memory'],
    ['a 64-bit memory', '(memory i64 1)', '64-bit memory'],
    ['several memories', '(memory 1) (memory 1)', 'several memories'],
    ['an imported memory and an own one', '(import "a" "m" (memory 1)) (memory 1)', 'several memories'],
    ['an imported shared memory', '(import "a" "m" (memory 1 1 shared))', 'shared memory'],
    ['an imported 64-bit memory', '(import "a" "m" (memory i64 1))', '64-bit memory'],
    ['a 64-bit table', '(table i64 1 funcref)', '64-bit table'],
  ])('%s: refused', async (_what, body, message) => {
    expect(complaint(await component(`(core module ${body})`))).toContain(message);
    expect(complaint(await component(`(component (component (core module ${body})))`))).toContain(message);
  });

  it('tables with an initial value and typed references are read past', async () => {
    const body = '(table 1 1 funcref (ref.null func)) (table 1 externref) (type $t (func)) (table 1 (ref null $t))';
    expect(complaint(await component(`(core module ${body})`))).toBe('admitted');
  });
});

describe('what has no bound is refused', () => {
  const nest = (levels: number, inner: string): string =>
    levels === 0 ? inner : `(component ${nest(levels - 1, inner)})`;

  it('components in components', async () => {
    expect(complaint(await fromText(nest(MAX_NESTING, '')))).toBe('admitted');
    expect(complaint(await fromText(nest(MAX_NESTING + 2, '')))).toContain(`more than ${MAX_NESTING} deep`);
  });

  it('types in types', async () => {
    const types = (levels: number): string => (levels === 0 ? '' : `(type (component ${types(levels - 1)}))`);
    expect(complaint(await component(types(MAX_NESTING)))).toBe('admitted');
    expect(complaint(await component(types(MAX_NESTING + 1)))).toContain(`more than ${MAX_NESTING} deep`);
  });

  it('more definitions than anybody needs, whatever the count claims', () => {
    const claims = (count: number[]) => Buffer.from([0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0, 7, count.length, ...count]);
    expect(complaint(claims([0xff, 0xff, 0xff, 0xff, 0x0f]))).toContain(
      'the component has more than 500000 definitions',
    );
    expect(complaint(claims([0xff, 0xff, 0xff, 0xff, 0x1f]))).toContain('does not fit into 32 bits');
    expect(complaint(claims([0x80, 0x80, 0x80, 0x80, 0x80, 0x00]))).toContain('does not fit into 32 bits');
    expect(complaint(claims([1]))).toContain('unexpected end');
  });

  it('types of a core module, before anybody counts them', () => {
    const types = Buffer.concat([
      Buffer.from([1, 0x4e]),
      leb(700_000),
      Buffer.alloc(2_100_000, Buffer.from([0x60, 0, 0])),
    ]);
    const module = section(1, Buffer.concat([Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]), section(1, types)]));
    const whole = Buffer.concat([Buffer.from([0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0]), module]);
    expect(complaint(whole)).toMatch(
      /^a core module of the component has \d+ bytes of types, at most 1048576 are allowed$/,
    );
  });

  const leb = (value: number) => Buffer.from(unsignedLeb(value));
  const section = (id: number, body: Buffer) => Buffer.concat([Buffer.from([id]), leb(body.length), body]);

  it('components that double with every level', async () => {
    const twice = (levels: number): string =>
      levels === 0
        ? '(component $c0)'
        : `${twice(levels - 1)} (component $c${levels}
             (alias outer 1 $c${levels - 1} (component $x)) (instance (instantiate $x)) (instance (instantiate $x)))`;
    const whole = (levels: number) => component(`${twice(levels)} (instance (instantiate $c${levels}))`);
    expect(complaint(await whole(6))).toBe('admitted');
    expect(complaint(await whole(20))).toContain('more than 256 components');
  });

  it('core modules without number', async () => {
    const instances = (count: number) =>
      component(`(core module $m) ${'(core instance (instantiate $m))'.repeat(count)}`);
    expect(complaint(await instances(256))).toBe('admitted');
    expect(complaint(await instances(257))).toContain('more than 256 core modules');
  });
});

describe('what is malformed is refused', () => {
  const preamble = [0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0];

  it.each([
    ['an unknown section', [13, 0], 'unknown section'],
    ['a start function with arguments', [9, 3, 0, 0, 0], 'unknown section'],
    ['a section past the end', [7, 100, 0], 'unexpected end'],
    ['bytes after a section', [7, 3, 1, 0x7f, 0], 'extra bytes at the end of'],
    ['an unknown type', [7, 2, 1, 0x3d], 'unknown type'],
    ['an unknown component model builtin', [8, 2, 1, 0x7f], 'unknown component model builtin'],
    ['a core module has no module header', [1, 8, ...preamble], 'core module has no module header'],
    [
      'a nested component has no component header',
      [4, 8, 0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      'nested component has no component header',
    ],
    ['an instance of nothing', [5, 4, 1, 0, 7, 0], 'component index 7 is out of range'],
    ['an export of nothing', [11, 7, 1, 0, 1, 0x61, 1, 9, 0], 'func index 9 is out of range'],
    ['what is outside of everything', [6, 5, 1, 3, 2, 1, 0], 'outer alias beyond the root component'],
  ])('%s', (_what, bytes, message) => {
    expect(complaint(Buffer.from([...preamble, ...bytes]))).toContain(message);
  });

  it.each([
    ['a core module', '(import "m" (core module))', 'the component imports the module m'],
    ['a component', '(import "c" (component))', 'the component imports the component c'],
  ])('%s as an import', async (_what, body, message) => {
    expect(complaint(await component(body))).toContain(message);
  });
});

describe('mutated components', () => {
  let samples: Uint8Array[] = [];
  beforeAll(async () => {
    samples = [
      await buildComponent(logging('hello')),
      await dummyComponent(),
      await component(placesOfNames['a core module of a nested component']?.('f') ?? ''),
      await adapted('(module (memory (export "memory") 1) (func (export "_start")))'),
    ];
  });

  it('never do anything to the walker but being refused', { timeout: GENEROUS_MS }, () => {
    const mutation = fc.record({
      sample: fc.nat(),
      edits: fc.array(fc.record({ at: fc.nat(), byte: fc.integer({ min: 0, max: 255 }) }), {
        minLength: 1,
        maxLength: 8,
      }),
      cut: fc.option(fc.nat(), { nil: undefined }),
      move: fc.option(fc.record({ from: fc.nat(), to: fc.nat(), length: fc.nat(64) }), { nil: undefined }),
    });
    fc.assert(
      fc.property(mutation, ({ sample, edits, cut, move }) => {
        const bytes = Buffer.from(samples[sample % samples.length] ?? []);
        for (const { at, byte } of edits) bytes[8 + (at % (bytes.length - 8))] = byte;
        if (move)
          bytes.copyWithin(
            8 + (move.to % bytes.length),
            move.from % bytes.length,
            (move.from % bytes.length) + move.length,
          );
        judge(cut === undefined ? bytes : bytes.subarray(0, cut % bytes.length));
      }),
      { numRuns: 3000 },
    );
  });

  /** All that the host does with the bytes by itself. */
  function judge(bytes: Uint8Array): void {
    try {
      const linked = linkComponent(readComponent(bytes));
      chooseLane(linked);
      withoutCustomSections(bytes);
      entryOf(linked.exports);
      checkImports(linked.imports);
    } catch (error) {
      if (!(error instanceof ModuleError)) throw error;
    }
  }

  it('and cut off at any byte they are refused, or are a whole shorter one', () => {
    const bytes = samples[0] ?? new Uint8Array();
    const admitted = Array.from({ length: bytes.length }, (_, length) => length).filter(
      (length) => length >= 8 && complaint(bytes.subarray(0, length)) === 'admitted',
    );
    // The format has no end mark: what stops between two sections is a component.
    expect(admitted.length).toBeLessThan(60);
  });
});
