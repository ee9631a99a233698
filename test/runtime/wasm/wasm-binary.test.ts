import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ModuleError } from '../../../src/runtime/abi/guest-module.ts';
import { importTypes } from '../../../src/runtime/wasm/import-types.ts';
import {
  binaryKind,
  readSections,
  unsignedLeb,
  WasmReader,
  writeSections,
} from '../../../src/runtime/wasm/wasm-binary.ts';
import { runnable } from '../../support/small-modules.ts';
import { encodeSections, leb, section, signedLeb } from '../../support/wasm-encoder.ts';

describe('numbers', () => {
  it('are read as they are written', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (value) => {
        const bytes = unsignedLeb(value);
        expect(bytes).toEqual(leb(value));
        const reader = new WasmReader(Uint8Array.from(bytes));
        expect(reader.unsigned()).toBe(value);
        expect(reader.done).toBe(true);
      }),
      { seed: 13 },
    );
  });

  it('may be padded, and must end', () => {
    expect(new WasmReader(Uint8Array.of(0x81, 0x80, 0x80, 0x00)).unsigned()).toBe(1);
    expect(() => new WasmReader(Uint8Array.of(0x81, 0x80)).unsigned()).toThrow(
      new ModuleError('unexpected end of the module'),
    );
    expect(() => new WasmReader(new Uint8Array(11).fill(0x80)).unsigned()).toThrow(ModuleError);
  });
});

describe('sections', () => {
  it('come out as they went in', () => {
    const bytes = runnable((module) => module.importFunction('spear', 'cchat_create', [], ['i32']));
    expect(Buffer.from(writeSections(readSections(bytes)))).toEqual(Buffer.from(bytes));
  });

  it.each([
    ['a length beyond the end', [1, 0x7f]],
    ['a length that does not end', [1, 0x80]],
    ['an enormous length', [1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]],
  ])('with %s are cut off', (_what, rest) => {
    expect(() => readSections(Uint8Array.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, ...rest]))).toThrow(ModuleError);
  });

  it('of an unknown kind are left to the engine', () => {
    expect(readSections(encodeSections([[99, [1, 2]]]))).toEqual([{ id: 99, body: Uint8Array.of(1, 2) }]);
  });
});

it('the kind is in the first eight bytes', () => {
  expect(binaryKind(encodeSections([]))).toBe('core');
  expect(binaryKind(Uint8Array.of(0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0, 99))).toBe('component');
  expect(binaryKind(Uint8Array.of(0, 0x61, 0x73))).toBeUndefined();
});

describe('the types of imports', () => {
  it('are given in the order of the imports', () => {
    const bytes = runnable((module) => {
      module.importFunction('a', 'x', ['i32', 'i64', 'f32', 'f64'], ['i64']);
      module.importFunction('b', 'y', []);
    });
    expect(importTypes(bytes)).toEqual([
      { params: ['i32', 'i64', 'f32', 'f64'], results: ['i64'] },
      { params: [], results: [] },
    ]);
    expect(importTypes(runnable())).toEqual([]);
  });

  it('are read past types that refer to others', () => {
    const REF_NULL = 0x63;
    const many = Array.from({ length: 70 }, (_, index) => [0x60, 1, REF_NULL, ...signedLeb(Math.max(0, index - 1)), 0]);
    const types = [[0x60, 0, 0], ...many, [0x60, 1, 0x7f, 1, 0x7e]];
    const bytes = encodeSections([
      [section.type, [...leb(types.length), ...types.flat()]],
      [section.import, [1, 1, 0x61, 1, 0x62, 0, ...leb(types.length - 1)]],
    ]);
    expect(WebAssembly.validate(bytes)).toBe(true);
    expect(importTypes(bytes)).toEqual([{ params: ['i32'], results: ['i64'] }]);
  });

  it('are read from groups and subtypes', () => {
    const [REC, SUB, SUB_FINAL, FUNC] = [0x4e, 0x50, 0x4f, 0x60];
    const group = [REC, 2, SUB, 0, FUNC, 1, 0x7f, 0, SUB_FINAL, 1, 0, FUNC, 1, 0x7f, 0];
    const bytes = encodeSections([
      [section.type, [2, ...group, FUNC, 0, 1, 0x7e]],
      [section.import, [2, 1, 0x61, 1, 0x62, 0, 2, 1, 0x61, 1, 0x63, 0, 1]],
    ]);
    expect(WebAssembly.validate(bytes)).toBe(true);
    expect(importTypes(bytes)).toEqual([
      { params: [], results: ['i64'] },
      { params: ['i32'], results: [] },
    ]);
  });

  it.each([
    ['arrays', [0x5e, 0x7e, 1]],
    ['structs', [0x5f, 1, 0x7f, 0]],
    ['arrays in a group', [0x4e, 1, 0x5e, 0x78, 1]],
    ['structs with subtypes', [0x50, 0, 0x5f, 0]],
  ])('are not looked for in a module with %s: their objects have no limit [wasm.gc]', (_what, type) => {
    const bytes = encodeSections([[section.type, [1, ...type]]]);
    expect(WebAssembly.validate(bytes)).toBe(true);
    expect(() => importTypes(bytes)).toThrow(ModuleError);
  });
});
