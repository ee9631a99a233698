import { describe, expect, it } from 'vitest';
import { ModuleError } from '../../../src/runtime/abi/guest-module.ts';
import { compileLimits, type LimitName } from '../../../src/runtime/port/limits.ts';
import { boundMemory } from '../../../src/runtime/wasm/bound-memory.ts';
import { readSections } from '../../../src/runtime/wasm/wasm-binary.ts';
import { forwarderModule } from '../../support/forwarder.ts';
import { fixtureBytes } from '../../support/run-fixture.ts';
import {
  encodeSections,
  type Limits,
  leb,
  limits,
  section,
  signedLeb,
  WasmModule,
} from '../../support/wasm-encoder.ts';

const PAGE = 65_536;
const MIB = 1024 * 1024;
const SHARED = 3;
const SIXTY_FOUR = 4;

const bound = (bytes: Uint8Array, given: Partial<Record<LimitName, number>>) =>
  boundMemory(bytes, compileLimits(given));

function memoryModule(...memories: Limits[]): Uint8Array {
  const module = new WasmModule();
  for (const size of memories) module.memory(size);
  module.export('memory', 'memory', 0);
  return module.encode();
}

const instantiate = (bytes: Uint8Array) => new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;

/** How many pages a memory can have, by growing it. */
function mostPages(bytes: Uint8Array): number {
  const memory = instantiate(bytes).memory as WebAssembly.Memory;
  let pages = memory.buffer.byteLength / PAGE;
  for (;;) {
    try {
      memory.grow(1);
    } catch (error) {
      expect(error).toBeInstanceOf(RangeError);
      return pages;
    }
    pages++;
  }
}

describe('the maximum of the memory', () => {
  it.each([
    ['none', { min: 1 }, 16],
    ['more', { min: 1, max: 1000 }, 16],
    ['the same', { min: 1, max: 16 }, 16],
    ['less', { min: 1, max: 3 }, 3],
    ['none, and it starts with all of it', { min: 16 }, 16],
  ])('is the limit where the module has %s [memory.limit]', (_what, size, expected) => {
    expect(mostPages(bound(memoryModule(size), { memory_bytes: MIB }))).toBe(expected);
  });

  it('is rounded down to pages [memory.limit]', () => {
    expect(mostPages(bound(memoryModule({ min: 0 }), { memory_bytes: 3 * PAGE - 1 }))).toBe(2);
  });

  it('is compared with what the module starts with [memory.limit]', () => {
    expect(() => bound(memoryModule({ min: 17 }), { memory_bytes: MIB })).toThrow(
      new ModuleError('the module starts with 1114112 bytes of memory, limits.memory_bytes is 1048576'),
    );
  });

  it.each([
    [
      'a shared memory',
      memoryModule({ min: 1, max: 2, flags: SHARED }),
      'the module has a shared memory; threads are not supported',
    ],
    [
      'a 64-bit memory',
      memoryModule({ min: 1, flags: SIXTY_FOUR }),
      'the module has a 64-bit memory; build it for wasm32',
    ],
    ['unknown flags', memoryModule({ min: 1, flags: 8 }), 'the module has a memory with unknown limit flags'],
    ['two memories', memoryModule({ min: 1 }, { min: 1 }), 'the module has several memories; only one is supported'],
  ])('is not asked of %s: the module is refused [memory.limit]', (_what, bytes, message) => {
    expect(() => bound(bytes, {})).toThrow(new ModuleError(message));
  });
});

describe('tables', () => {
  interface GrowableTable {
    readonly length: number;
    grow(entries: number): number;
  }

  const tableModule = (...tables: number[][]) => {
    const module = new WasmModule();
    for (const bytes of tables) module.rawTable(bytes);
    module.export('table', 'table', 0);
    return module.encode();
  };
  const FUNCREF = 0x70;
  const EXTERNREF = 0x6f;

  it.each([FUNCREF, EXTERNREF])('of references %i stop growing at table_elements', (type) => {
    const bytes = bound(tableModule([type, ...limits({ min: 1 })]), { table_elements: 10 });
    const table = instantiate(bytes).table as unknown as GrowableTable;
    table.grow(9);
    expect(() => table.grow(1)).toThrow(RangeError);
    expect(table.length).toBe(10);
  });

  it('keep a smaller maximum of their own', () => {
    const table = instantiate(bound(tableModule([FUNCREF, ...limits({ min: 1, max: 2 })]), { table_elements: 10 }))
      .table as unknown as GrowableTable;
    table.grow(1);
    expect(() => table.grow(1)).toThrow(RangeError);
  });

  it('that are too large, too many, shared or 64-bit are refused', () => {
    const refused = (...tables: number[][]) => expect(() => bound(tableModule(...tables), { table_elements: 10 }));
    refused([FUNCREF, ...limits({ min: 11 })]).toThrow('a table of 11 entries, limits.table_elements is 10');
    refused(...Array.from({ length: 17 }, () => [FUNCREF, 0, 0])).toThrow(
      'the module has 17 tables; at most 16 are allowed',
    );
    refused([FUNCREF, ...limits({ min: 1, max: 2, flags: SHARED })]).toThrow('shared table');
    refused([FUNCREF, ...limits({ min: 1, flags: SIXTY_FOUR })]).toThrow('64-bit table');
  });

  it('of typed references keep their type, whatever its index', () => {
    for (const index of [0, 1, 63, 64, 100, 200]) {
      const module = new WasmModule();
      // as many types as it takes to have this index, each with another number of parameters
      for (let count = 0; count <= index; count++) module.type(Array.from({ length: count }, () => 'i32'));
      const REF_NULL = 0x63;
      module.rawTable([REF_NULL, ...signedLeb(index), ...limits({ min: 1 })]);
      const NULL = 0xd0;
      const END = 0x0b;
      module.rawTable([
        0x40,
        0x00,
        REF_NULL,
        ...signedLeb(index),
        ...limits({ min: 2 }),
        NULL,
        ...signedLeb(index),
        END,
      ]);
      module.export('table', 'table', 1);
      const bytes = module.encode();
      expect(WebAssembly.validate(bytes)).toBe(true);
      const bounded = bound(bytes, { table_elements: 10 });
      expect(WebAssembly.validate(bounded)).toBe(true);
      expect((instantiate(bounded).table as unknown as GrowableTable).length).toBe(2);
    }
  });

  it('with a computed initial value are refused', () => {
    const I32_CONST = 0x41;
    const REF_I31 = [0xfb, 0x1c];
    const I31REF = 0x6c;
    const bytes = tableModule([0x40, 0x00, I31REF, ...limits({ min: 1 }), I32_CONST, 1, ...REF_I31, 0x0b]);
    expect(() => bound(bytes, {})).toThrow(ModuleError);
  });
});

describe('everything else', () => {
  it('of a module stays as it is, custom sections included [memory.limit]', async () => {
    const custom: [number, number[]] = [section.custom, [...leb(4), ...Buffer.from('note'), 1, 2, 3]];
    const samples = [
      encodeSections([custom, [section.memory, [1, 0, 1]], custom]),
      forwarderModule(1),
      await fixtureBytes('c/agent.wasm'),
      await fixtureBytes('assemblyscript/agent.wasm'),
    ];
    for (const bytes of samples) {
      const kept = (list: Uint8Array) =>
        readSections(list)
          .filter(({ id }) => id !== section.memory && id !== section.table)
          .map(({ id, body }) => [id, Buffer.from(body)]);
      expect(kept(bound(bytes, {}))).toEqual(kept(bytes));
    }
  });

  it('a module without memory and tables comes out the same [memory.limit]', () => {
    const module = new WasmModule();
    module.export('run', 'function', module.function([], [], []));
    expect(Buffer.from(bound(module.encode(), {}))).toEqual(Buffer.from(module.encode()));
  });
});
