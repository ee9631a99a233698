import { describe, expect, it } from 'vitest';
import { wasiFunctionTypes } from '../../../../src/generated/wasi-types.ts';
import { ModuleError } from '../../../../src/runtime/abi/guest-module.ts';
import { interfaceName, witPackage } from '../../../../src/runtime/abi/wit.ts';
import { servesFunction } from '../../../../src/runtime/guest/component/wasi/preview2.ts';
import { servedWasi } from '../../../../src/runtime/guest/component/wasi/served.ts';
import { readComponent } from '../../../../src/runtime/wasm/component/component-binary.ts';
import { checkImports, entryOf } from '../../../../src/runtime/wasm/component/import-check.ts';
import { linkComponent } from '../../../../src/runtime/wasm/component/link-component.ts';
import { dummyComponent, fromText, spearWit } from '../../../support/component-text.ts';

const linked = async (body: string) => linkComponent(readComponent(await fromText(`(component ${body})`)));

function complaint(check: () => unknown): string {
  try {
    check();
  } catch (error) {
    if (error instanceof ModuleError) return error.message;
    throw error;
  }
  return 'accepted';
}

const judged = async (body: string) => {
  const { imports } = await linked(body);
  return complaint(() => checkImports(imports));
};

const interfaceOf = (name: string, ...items: string[]) => `(import "${name}" (instance ${items.join(' ')}))`;
const exported = (name: string, type: string) => `(export "${name}" (func ${type}))`;
const clock = interfaceName('clock');
const MISSING = 'the component has imports that this host does not provide: ';

describe('imports of spear:host', () => {
  it('all of them pass, in the types of wit/spear.wit', async () => {
    const { imports } = linkComponent(readComponent(await dummyComponent()));
    expect([...imports.keys()]).toContain(interfaceName('cchat'));
    expect(complaint(() => checkImports(imports))).toBe('accepted');
  });

  it('a component of an older minor version passes, with what that had [component.import-versions]', async () => {
    const old = spearWit
      .replace('package spear:host@1.1.0;', 'package spear:host@1.0.0;')
      .replace(/^ +mcp-(list-resources|read-resource|list-prompts|get-prompt): .*$/gm, '');
    const { imports } = linkComponent(readComponent(await dummyComponent(old)));
    expect([...imports.keys()]).toContain('spear:host/mcp@1.0.0');
    expect(complaint(() => checkImports(imports))).toBe('accepted');
  });

  it('an unknown interface is named, with the nearest that there is', async () => {
    expect(await judged(interfaceOf('spear:host/chat@1.0.0'))).toBe(
      `${MISSING}spear:host/chat@1.0.0 (did you mean "cchat"?)`,
    );
    expect(await judged(interfaceOf('spear:host/constructor@1.0.0'))).toBe(`${MISSING}spear:host/constructor@1.0.0`);
    expect(await judged(interfaceOf('spear:other/cchat@1.0.0'))).toBe(`${MISSING}spear:other/cchat@1.0.0`);
  });

  it('an unknown function is named, with the nearest that there is', async () => {
    expect(await judged(interfaceOf(clock, exported('time-now-m', '(result s64)')))).toBe(
      `${MISSING}${clock}#time-now-m (did you mean "time-now-ms"?)`,
    );
    expect(await judged(interfaceOf(clock, exported('to-string', '(result s64)')))).toBe(
      `${MISSING}${clock}#to-string`,
    );
    // A function of another interface is none of this one.
    expect(await judged(interfaceOf(clock, exported('cchat-create', '(result s64)')))).toContain(
      `${clock}#cchat-create`,
    );
  });

  it.each([
    ['another result', '(result u64)', 'func() -> u64'],
    ['no result', '', 'func()'],
    ['a parameter', '(param "at" s64) (result s64)', 'func(at: s64) -> s64'],
    ['a deeper type', '(result (list (tuple u8 (option string))))', 'func() -> list<tuple<u8, option<string>>>'],
    ['the asynchronous form', 'async (result s64)', 'async func() -> s64'],
  ])('%s is a wrong type, shown beside the right one', async (_what, type, found) => {
    expect(await judged(interfaceOf(clock, exported('time-now-ms', type)))).toBe(
      `${MISSING}${clock}#time-now-ms as ${found} (this host has func() -> s64)`,
    );
  });

  it('names and order of parameters count, and so do the cases of errno', async () => {
    const wrong = spearWit
      .replace(
        'cchat-write-msg: func(fd: fd, role: string, content: string)',
        'cchat-write-msg: func(fd: fd, content: string, role: string)',
      )
      .replace('        eperm,', '')
      .replace('        ecanceled,', '        ecanceled,\n        eperm,');
    expect(wrong).not.toBe(spearWit);
    const { imports } = linkComponent(readComponent(await dummyComponent(wrong)));
    const message = complaint(() => checkImports(imports));
    expect(message).toContain('spear:host/types@1.1.0#errno as enum { enoent, eintr,');
    expect(message).toMatch(/cchat-write-msg as func\(fd: s32, content: string, role: string\) -> result<_, enum/);
    expect(message).toContain('(this host has func(fd: s32, role: string, content: string) -> result<_, errno>)');
    expect(message).toMatch(/; and \d+ more$/);
  });

  it('a type that is larger than any of ours is not written out', async () => {
    const types = Array.from({ length: 20 }, (_, index) => `(type $t${index + 1} (tuple $t${index} $t${index}))`);
    const body = `(type $t0 u8) ${types.join(' ')} (export "fd" (type $t (eq $t20)))`;
    await expect(judged(interfaceOf(clock, body))).resolves.toBe('the component has a type of more than 200 parts');
  });

  it.each([
    ['fields', (name: string) => `(type $t (record ${repeated((at) => `(field "f${at}" u8)`)})) ${exportAs(name)}`],
    ['cases', (name: string) => `(type $t (variant ${repeated((at) => `(case "c${at}")`)})) ${exportAs(name)}`],
    ['members', (name: string) => `(type $t (tuple ${repeated(() => 'u8')})) ${exportAs(name)}`],
  ])('nor is one of many %s', async (_what, body) => {
    await expect(judged(interfaceOf(clock, body('fd')))).resolves.toBe(
      'the component has a type of more than 200 parts',
    );
  });

  it('nor is a function of many parameters', async () => {
    const params = repeated((at) => `(param "p${at}" u8)`);
    await expect(judged(interfaceOf(clock, exported('time-now-ms', params)))).resolves.toBe(
      'the component has a type of more than 200 parts',
    );
  });

  const repeated = (part: (at: number) => string) => Array.from({ length: 300 }, (_, at) => part(at)).join(' ');
  const exportAs = (name: string) => `(export "${name}" (type (eq $t)))`;

  it.each(['2.0.0', '0.9.0', '1.2.0', '1.0.0-rc.1', '99999999999.0.0'])(
    'version %s is not ours, and ours is named [component.import-versions]',
    async (version) => {
      expect(await judged(interfaceOf(`spear:host/clock@${version}`))).toBe(
        `${MISSING}spear:host/clock@${version} (this host has spear:host ${witPackage.version}: the major version must be equal, the minor version not higher)`,
      );
    },
  );

  it('any patch of our version passes; no version does not [component.import-versions]', async () => {
    expect(await judged(interfaceOf('spear:host/clock@1.0.7'))).toBe('accepted');
    expect(await judged(interfaceOf('spear:host/clock'))).toContain('spear:host/clock (this host has');
  });
});

describe('other imports', () => {
  it('the interfaces of WASI 0.2 that are served pass, in any patch [component.import-wasi]', async () => {
    for (const version of ['0.2.0', '0.2.12']) {
      expect(await judged(servedWasi.map((name) => interfaceOf(`${name}@${version}`)).join(' '))).toBe('accepted');
    }
  });

  it.each([
    ['wasi:http/types@0.2.0', 'wasi:http/types@0.2.0'],
    ['wasi:cli/environment@0.3.0', 'wasi:cli/environment@0.3.0 (this host has WASI 0.2)'],
    ['wasi:cli/environment', 'wasi:cli/environment (this host has WASI 0.2)'],
    ['acme:tools/shell@1.0.0', 'acme:tools/shell@1.0.0'],
    ['plain', 'plain (not an interface of spear:host or wasi)'],
  ])('%s is refused by its name [component.import-wasi]', async (name, shown) => {
    expect(await judged(interfaceOf(name))).toBe(MISSING + shown);
  });

  it.each([
    ['wasi:cli/environment', 'get-nonsense'],
    ['wasi:cli/environment', 'to-string'],
    ['wasi:clocks/wall-clock', 'constructor'],
  ])('%s#%s, a function that nobody has, is named [component.import-wasi]', async (from, name) => {
    expect(await judged(interfaceOf(`${from}@0.2.3`, exported(name, '')))).toBe(`${MISSING}${from}@0.2.3#${name}`);
  });

  it('and so are methods that our resources do not have [component.import-wasi]', async () => {
    const stream = '(export "output-stream" (type $o (sub resource)))';
    const method = (name: string) =>
      `(export "[method]output-stream.${name}" (func (param "self" (borrow $o)) (result u64)))`;
    const from = 'wasi:io/streams@0.2.3';
    expect(await judged(interfaceOf(from, stream, method('rewind')))).toBe(
      `${MISSING}${from}#[method]output-stream.rewind`,
    );
  });

  it('every function of the published WASI 0.2 is there, as its WIT has it [component.import-wasi]', async () => {
    // check:generated compares the table with the published WIT.
    const unserved = Object.keys(wasiFunctionTypes).filter((name) => {
      const [from = '', member = ''] = name.split('#');
      return !servesFunction(from, member);
    });
    expect(unserved).toEqual([]);
  });

  it.each([
    ['random', 'get-random-bytes', '(param "len" u64) (result (list f64))', 'func(len: u64) -> list<f64>'],
    ['random', 'get-random-bytes', '(param "len" u32) (result (list u8))', 'func(len: u32) -> list<u8>'],
    ['random', 'get-random-u64', '(result string)', 'func() -> string'],
    ['random', 'get-random-u64', '(param "seed" u64) (result u64)', 'func(seed: u64) -> u64'],
  ])('of another type than WASI has is refused: %s#%s %s [component.import-wasi]', async (from, name, type, found) => {
    const published = wasiFunctionTypes[`wasi:random/${from}#${name}`];
    expect(await judged(interfaceOf(`wasi:random/${from}@0.2.3`, exported(name, type)))).toBe(
      `${MISSING}wasi:random/${from}@0.2.3#${name} as ${found} (WASI has ${published})`,
    );
  });

  it('that takes or gives another resource is refused [component.import-wasi]', async () => {
    const body = [
      '(export "input-stream" (type $i (sub resource)))',
      '(export "output-stream" (type $o (sub resource)))',
      '(export "[method]output-stream.check-write" (func (param "self" (borrow $i)) (result u64)))',
    ];
    expect(await judged(interfaceOf('wasi:io/streams@0.2.3', ...body))).toContain(
      '#[method]output-stream.check-write as func(self: borrow<input-stream>) -> u64 (WASI has func(self: borrow<output-stream>)',
    );
  });

  it('a function beside all interfaces is refused by its name [component.import-wasi]', async () => {
    expect(await judged('(import "get-key" (func (result string)))')).toContain('get-key (not an interface');
  });
});

describe('the entry', () => {
  const core =
    '(core module $m (func (export "f") (result i32) i32.const 0)) (core instance $i (instantiate $m)) (alias core export $i "f" (core func $f))';
  const run = '(func $run (result (result)) (canon lift (core func $f)))';
  const asInterface = (name: string) =>
    `${core} ${run} (instance $w (export "run" (func $run))) (export "${name}" (instance $w))`;
  const entry = async (body: string) => entryOf((await linked(body)).exports);
  const entered = async (body: string) => {
    const { exports } = await linked(body);
    return complaint(() => entryOf(exports));
  };

  it('is wasi:cli/run where there is one, else run [component.entry]', async () => {
    expect(await entry(`${core} ${run} (export "run" (func $run))`)).toBe('run');
    expect(await entry(asInterface('wasi:cli/run@0.2.7'))).toBe('wasi:cli/run@0.2.7');
    expect(await entry(`${asInterface('wasi:cli/run@0.2.0')} (export "run" (func $run))`)).toBe('wasi:cli/run@0.2.0');
  });

  it('of another type, or missing, is explained [component.entry]', async () => {
    const number = '(func $run (result u32) (canon lift (core func $f)))';
    expect(await entered(`${core} ${number} (export "run" (func $run))`)).toBe(
      'the export run has type func() -> u32; expected func() -> result',
    );
    expect(await entered(asInterface('wasi:cli/run@0.3.0'))).toContain('(exports: wasi:cli/run@0.3.0)');
    expect(await entered(core)).toContain('(exports: none)');
    expect(await entered('(import "run" (func $f (result (result)))) (export "run-again" (func $f))')).toContain(
      'it exports neither',
    );
    expect(await entered('(import "f" (func $f (result (result)))) (export "run" (func $f))')).toBe(
      'the export run is not a function of the component',
    );
  });
});
