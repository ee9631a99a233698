export type ValueType = 'i32' | 'i64' | 'f32' | 'f64';

const VALUE_TYPES = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c } as const;
const FUNC_TYPE = 0x60;
const FUNCREF = 0x70;
const END = 0x0b;
const KIND = { function: 0, table: 1, memory: 2, global: 3 } as const;

const PREAMBLE = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];

export const section = {
  custom: 0,
  type: 1,
  import: 2,
  function: 3,
  table: 4,
  memory: 5,
  global: 6,
  export: 7,
  start: 8,
  element: 9,
  code: 10,
  data: 11,
} as const;

export interface Limits {
  readonly min: number;
  readonly max?: number;
  /** Instead of what `max` implies: shared and 64-bit memories, flags that nobody knows. */
  readonly flags?: number;
}

/** Unsigned LEB128. */
export function leb(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 128) {
    bytes.push((rest % 128) | 0x80);
    rest = Math.floor(rest / 128);
  }
  return [...bytes, rest];
}

/** Signed LEB128, as of constants and heap types. */
export function signedLeb(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (;;) {
    const low = rest & 0x7f;
    rest >>= 7;
    const last = (rest === 0 && !(low & 0x40)) || (rest === -1 && low & 0x40);
    bytes.push(last ? low : low | 0x80);
    if (last) return bytes;
  }
}

export const i32Const = (value: number): number[] => [0x41, ...signedLeb(value)];
export const localGet = (index: number): number[] => [0x20, ...leb(index)];
export const call = (index: number): number[] => [0x10, ...leb(index)];
export const drop: number[] = [0x1a];
export const unreachable: number[] = [0x00];
/** `(loop (br 0))` */
export const spin: number[] = [0x03, 0x40, 0x0c, 0x00, END];

const name = (text: string | Uint8Array): number[] => {
  const bytes = Buffer.from(text);
  return [...leb(bytes.byteLength), ...bytes];
};
const vector = (items: readonly (readonly number[])[]): number[] => [...leb(items.length), ...items.flat()];

export function limits({ min, max, flags }: Limits): number[] {
  return [flags ?? (max === undefined ? 0 : 1), ...leb(min), ...(max === undefined ? [] : leb(max))];
}

export function encodeSections(sections: readonly (readonly [id: number, body: readonly number[]])[]): Uint8Array {
  return Uint8Array.from([...PREAMBLE, ...sections.flatMap(([id, body]) => [id, ...leb(body.length), ...body])]);
}

/** Writes core modules for tests: functions as raw instructions, everything else by name. Imports come first. */
export class WasmModule {
  readonly #types: number[][] = [];
  readonly #imports: number[][] = [];
  readonly #functions: { type: number; body: number[] }[] = [];
  readonly #tables: number[][] = [];
  readonly #memories: number[][] = [];
  readonly #exports: number[][] = [];
  readonly #elements: number[][] = [];
  readonly #data: number[][] = [];
  #importedFunctions = 0;
  #start: number | undefined;

  type(params: readonly ValueType[], results: readonly ValueType[] = []): number {
    const list = (types: readonly ValueType[]) => vector(types.map((type) => [VALUE_TYPES[type]]));
    return this.rawType([FUNC_TYPE, ...list(params), ...list(results)]);
  }

  rawType(bytes: number[]): number {
    const known = this.#types.findIndex((type) => type.join() === bytes.join());
    return known >= 0 ? known : this.#types.push(bytes) - 1;
  }

  importFunction(
    from: string,
    called: string,
    params: readonly ValueType[],
    results: readonly ValueType[] = [],
  ): number {
    this.#imports.push([...name(from), ...name(called), KIND.function, ...leb(this.type(params, results))]);
    return this.#importedFunctions++;
  }

  importMemory(from: string, called: string, size: Limits): void {
    this.#imports.push([...name(from), ...name(called), KIND.memory, ...limits(size)]);
  }

  function(params: readonly ValueType[], results: readonly ValueType[], instructions: readonly number[]): number {
    this.#functions.push({ type: this.type(params, results), body: [...instructions] });
    return this.#importedFunctions + this.#functions.length - 1;
  }

  table(size: Limits): number {
    return this.rawTable([FUNCREF, ...limits(size)]);
  }

  rawTable(bytes: number[]): number {
    return this.#tables.push(bytes) - 1;
  }

  memory(size: Limits): number {
    return this.#memories.push(limits(size)) - 1;
  }

  export(called: string, kind: keyof typeof KIND, index: number): void {
    this.#exports.push([...name(called), KIND[kind], ...leb(index)]);
  }

  /** Puts functions into table 0, from `offset` on. */
  element(offset: number, functions: readonly number[]): void {
    this.#elements.push([0, ...i32Const(offset), END, ...vector(functions.map(leb))]);
  }

  data(offset: number, text: string | Uint8Array): void {
    this.#data.push([0, ...i32Const(offset), END, ...name(text)]);
  }

  start(index: number): void {
    this.#start = index;
  }

  encode(): Uint8Array {
    const code = this.#functions.map(({ body }) => {
      const whole = [0, ...body, END];
      return [...leb(whole.length), ...whole];
    });
    const start: [number, number[]][] = this.#start === undefined ? [] : [[section.start, leb(this.#start)]];
    const vectors: [number, number[]][] = [
      [section.type, vector(this.#types)],
      [section.import, vector(this.#imports)],
      [section.function, vector(this.#functions.map(({ type }) => leb(type)))],
      [section.table, vector(this.#tables)],
      [section.memory, vector(this.#memories)],
      [section.export, vector(this.#exports)],
      [section.element, vector(this.#elements)],
      [section.code, vector(code)],
      [section.data, vector(this.#data)],
    ];
    const filled = vectors.filter(([, body]) => body.length > 1);
    return encodeSections([...filled, ...start].sort(([a], [b]) => a - b));
  }
}
