import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

/** What the JSON functions of an SDK have in common; undefined: there is no such value. */
interface JsonFunctions {
  text(json: string, path: string): string | undefined;
  raw(json: string, path: string): string | undefined;
  number(json: string, path: string): number;
  quote(text: string): string;
}

type Numbers = Readonly<Record<string, (...args: number[]) => number>>;

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true }); // a value may begin with U+FEFF
const CAPACITY = 1 << 16;
const PAGE = 65_536;

function instantiate(path: string): {
  exports: Numbers;
  memory: WebAssembly.Memory;
  integer: (...args: number[]) => bigint;
} {
  const bytes = readFileSync(fileURLToPath(new URL(`../../fixtures/${path}`, import.meta.url)));
  const module = new WebAssembly.Module(bytes);
  // The JSON functions call nothing of the host, so no import may ever be reached.
  const imports: Record<string, Record<string, () => never>> = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    imports[from] = {
      ...imports[from],
      [name]: () => {
        throw new Error(`${name} was called`);
      },
    };
  }
  const { exports } = new WebAssembly.Instance(module, imports);
  (exports._initialize as () => void)();
  return {
    exports: exports as unknown as Numbers,
    memory: exports.memory as WebAssembly.Memory,
    integer: exports.integer as (...args: number[]) => bigint,
  };
}

function call(exports: Numbers, name: string, ...args: number[]): number {
  const found = exports[name];
  if (!found) throw new Error(`no export ${name}`);
  return found(...args);
}

/**
 * Texts lie at the very end of memory, so that reading past their NUL traps. The pages are of the host: malloc does not
 * know them.
 */
function cFunctions(): JsonFunctions & { integer(json: string, path: string): bigint } {
  const { exports, memory, integer } = instantiate('c/test/json.wasm');
  const pages = 4;
  memory.grow(pages);
  const end = memory.buffer.byteLength;
  const out = call(exports, 'alloc', CAPACITY);
  const put = (text: string, before: number) => {
    const bytes = encoder.encode(`${text}\0`);
    const start = before - bytes.byteLength;
    if (start < end - pages * PAGE) throw new Error('the text is too long for this test');
    new Uint8Array(memory.buffer).set(bytes, start);
    return start;
  };
  const take = (length: number) => decoder.decode(new Uint8Array(memory.buffer, out, length).slice());
  const string = (name: string, json: string, path: string) => {
    const at = put(json, end);
    const length = call(exports, name, at, put(path, at), out, CAPACITY);
    return length < 0 ? undefined : take(length);
  };
  return {
    text: (json, path) => string('text', json, path),
    raw: (json, path) => string('raw', json, path),
    number: (json, path) => {
      const at = put(json, end);
      return call(exports, 'number', at, put(path, at));
    },
    integer: (json, path) => {
      const at = put(json, end);
      return integer(at, put(path, at));
    },
    quote: (text) => take(call(exports, 'quote', put(text, end), out, CAPACITY)),
  };
}

function assemblyScriptFunctions(): JsonFunctions {
  const { exports, memory } = instantiate('assemblyscript/test/json.wasm');
  const withTexts = <T>(texts: readonly string[], use: (args: number[]) => T): T => {
    const encoded = texts.map((text) => encoder.encode(text));
    const places = encoded.map((bytes) => call(exports, 'alloc', bytes.byteLength));
    for (const [i, place] of places.entries()) new Uint8Array(memory.buffer).set(encoded[i] ?? [], place);
    const result = use(places.flatMap((place, i) => [place, encoded[i]?.byteLength ?? 0]));
    for (const place of places) call(exports, 'release', place);
    return result;
  };
  const string = (name: string, texts: readonly string[]) =>
    withTexts(texts, (args) => {
      const length = call(exports, name, ...args);
      return length < 0
        ? undefined
        : decoder.decode(new Uint8Array(memory.buffer, call(exports, 'result'), length).slice());
    });
  return {
    text: (json, path) => string('text', [json, path]),
    raw: (json, path) => string('raw', [json, path]),
    number: (json, path) => withTexts([json, path], (args) => call(exports, 'number', ...args)),
    quote: (text) => string('quoted', [text]) ?? '',
  };
}

const escapeAll = (json: string) =>
  json.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
const spaced = (json: string) => JSON.stringify(JSON.parse(json), null, ' \t');

/** Every value inside a value with the path to it. Names that a path cannot spell are left out. */
function* walk(value: unknown, path: string): Generator<[string, unknown]> {
  yield [path, value];
  if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) yield* walk(item, `${path}[${i}]`);
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) yield* walk(member, path === '' ? name : `${path}.${name}`);
  }
}

/** No name ends in a backslash: V8's JSON.parse takes a later escaped name for it (nodejs/node#63785). */
const key = fc
  .oneof(
    fc.string({ minLength: 1, maxLength: 8, unit: 'binary' }),
    fc.constantFrom('a', 'b', 'content', 'é', '😀', '"'),
  )
  .filter((name) => !/[.[\0]|\\$/.test(name));
const { tree } = fc.letrec((tie) => ({
  tree: fc.oneof({ depthSize: 'small', withCrossShrink: true }, tie('leaf'), tie('list'), tie('object')),
  list: fc.array(tie('tree'), { maxLength: 5 }),
  object: fc.dictionary(key, tie('tree'), { maxKeys: 5 }),
  leaf: fc.oneof(fc.string({ unit: 'binary' }), fc.integer(), fc.boolean(), fc.constant(null)),
}));

const sdks = [
  { name: 'spear.h', make: cFunctions },
  { name: 'spear.ts', make: assemblyScriptFunctions },
];

describe.each(sdks)('JSON in $name', ({ make }) => {
  it('finds every value of a document and decodes every string like JSON.parse', () => {
    const sdk = make();
    fc.assert(
      fc.property(
        tree,
        fc.constantFrom((json: string) => json, escapeAll, spaced),
        (value, form) => {
          const json = form(JSON.stringify(value));
          for (const [path, inner] of walk(value, '')) {
            expect(JSON.parse(sdk.raw(json, path) ?? 'null'), `${json} at ${path}`).toEqual(inner);
            expect(sdk.text(json, path), `${json} at ${path}`).toBe(typeof inner === 'string' ? inner : undefined);
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it('survives text that is no JSON', () => {
    const sdk = make();
    const broken = fc
      .tuple(tree, fc.nat(), fc.nat(), fc.constantFrom('', '"', '\\', '{', ']', ',', ':', '\\u12', '\\ud800'))
      .map(([value, from, to, patch]) => {
        const json = JSON.stringify(value);
        const start = from % (json.length + 1);
        return json.slice(0, start) + patch + json.slice(start + (to % 4));
      });
    fc.assert(
      fc.property(
        broken,
        fc.constantFrom('', 'a', '[0]', 'a.b', 'content[1]', '[', '[9', '.', 'a[x]'),
        (json, path) => {
          sdk.raw(json, path);
          sdk.text(json, path);
          sdk.number(json, path);
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('quotes any text so that JSON.parse gives it back', () => {
    const sdk = make();
    const text = fc.string({ unit: 'binary', maxLength: 200 }).filter((candidate) => !candidate.includes('\0'));
    fc.assert(
      fc.property(text, (given) => {
        expect(JSON.parse(sdk.quote(given))).toBe(given);
      }),
    );
  });

  it.each([
    ['{"choices":[{"message":{"content":"Zürich \\ud83d\\ude80\\n"}}]}', 'choices[0].message.content', 'Zürich 🚀\n'],
    ['{"a":{"b":"inner"},"b":"outer"}', 'b', 'outer'],
    ['{"a\\u0062":"the name is escaped"}', 'ab', 'the name is escaped'],
    ['{"\\\\":"the name is a backslash"}', '\\', 'the name is a backslash'],
    ['[["x","y"],["z"]]', '[1][0]', 'z'],
    ['{"a":null}', 'a', undefined],
    ['{"a":"b"}', 'a.b', undefined],
    ['{"a":"unfinished', 'a', undefined],
    ['', 'a', undefined],
  ])('reads %s at %s', (json, path, expected) => {
    expect(make().text(json, path)).toBe(expected);
  });

  it.each(['0', '-7', '42', '2.5', '1e3', '-1.5E-2', '9007199254740991'])('reads the number %s', (text) => {
    expect(make().number(`{"n": ${text} }`, 'n')).toBeCloseTo(Number(text), 10);
  });

  it('answers the fallback for what is no number', () => {
    expect(make().number('{"n":"5"}', 'n')).toBe(-1);
    expect(make().number('{}', 'n')).toBe(-1);
  });
});

describe('JSON in spear.h alone', () => {
  it.each([
    ['7', 7n],
    ['-12.9', -12n],
    ['1.5e3', 1500n],
    ['25e-1', 2n],
    ['0.0000001e7', 1n],
    ['9223372036854775807', 9223372036854775807n],
    ['-9223372036854775808', -9223372036854775808n],
    ['1e300', 9223372036854775807n],
    ['-1e300', -9223372036854775808n],
    ['1e-300', 0n],
    ['123456789012345678901', 9223372036854775807n],
    ['"7"', -1n],
  ])('reads %s as a whole number', (text, expected) => {
    expect(cFunctions().integer(`{"n":${text}}`, 'n')).toBe(expected);
  });

  it('replaces half a surrogate pair', () => {
    expect(cFunctions().text('["\\ud800x\\udc00"]', '[0]')).toBe('\ufffdx\ufffd');
  });
});
