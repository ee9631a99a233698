import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { print } from '@bytecodealliance/jco-transpile/wasm-tools';
import { describe, expect, it } from 'vitest';
import { interfaceName } from '../../../../src/runtime/abi/wit.ts';
import { readComponent } from '../../../../src/runtime/wasm/component/component-binary.ts';
import { chooseLane } from '../../../../src/runtime/wasm/component/fast-lane-proof.ts';
import { linkComponent } from '../../../../src/runtime/wasm/component/link-component.ts';
import {
  buildComponent,
  dummyComponent,
  fromText,
  importsText,
  logging,
  nestedText,
  spearWit,
} from '../../../support/component-text.ts';
import { adapted, guestModule } from '../../../support/guest-text.ts';
import { runFixture } from '../../../support/run-fixture.ts';

const GENEROUS_MS = 120_000;

/** `fast`, or why not. */
function lane(bytes: Uint8Array): string {
  const chosen = chooseLane(linkComponent(readComponent(bytes)));
  return chosen.kind === 'fast' ? 'fast' : chosen.reason;
}

const log = interfaceName('log');
const clock = interfaceName('clock');

describe('the fast lane is taken', () => {
  it('by what wit-component links, through its shim and fixup modules', async () => {
    const bytes = await buildComponent(logging('hello'));
    expect(await print(bytes)).toContain('$wit-component-shim-module');
    expect(lane(bytes)).toBe('fast');
  });

  it('by a component in a component that is given the host’s own instances', async () => {
    expect(lane(await composed({ guarded: false }))).toBe('fast');
  });

  it('by functions that need no memory, lowered without a shim', async () => {
    expect(lane(await direct({}))).toBe('fast');
  });

  it('with a memory and an allocator that the module imports from env', async () => {
    expect(lane(await loweredLog({ user: 'env', memory: 'libc', realloc: 'libc' }))).toBe('fast');
  });
});

describe('the built guests', () => {
  const fixtures = fileURLToPath(new URL('../../../../fixtures/', import.meta.url));
  const built = readdirSync(fixtures, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.component.wasm'),
  );

  it('take the fast lane in every language, unless they ask nothing of the host', () => {
    const languages = new Set(built.map((name) => name.split('/')[0]));
    expect([...languages].sort()).toEqual(['assemblyscript', 'c', 'javascript', 'rust']);
    for (const name of built) {
      const bytes = readFileSync(join(fixtures, name));
      const asks = bytes.includes('spear:host/');
      expect([name, lane(bytes)]).toEqual([
        name,
        asks ? 'fast' : 'no core module of the component imports spear:host by name',
      ]);
    }
  });
});

describe('the glue serves', () => {
  it('names of the newer form, other encodings, and components without our imports', async () => {
    expect(lane(await dummyComponent())).toBe('a core module uses names of the form cm32p2|');
    expect(lane(await buildComponent(logging('hello'), { stringEncoding: 'utf16' }))).toBe(
      `${log}#log passes strings as utf16`,
    );
    expect(lane(await adapted('(module (memory (export "memory") 1) (func (export "_start")))'))).toBe(
      'no core module of the component imports spear:host by name',
    );
  });

  it('a component that a guard stands in front of [component.lane-guard]', async () => {
    expect(lane(await composed({ guarded: true }))).toBe(`the component wraps ${log}#log`);
  });

  it.each([
    [
      'a core module in the place of the host',
      { given: '(instance $guard)' },
      `a core module of the component implements ${clock}`,
    ],
    ['a function of a core module', { item: '(func $guarded)' }, `the component has its own ${clock}#time-now-ms`],
    [
      'another function of the host',
      { item: '(func $other)' },
      `the component imports ${clock}#wall-time-s as ${clock}#time-now-ms`,
    ],
  ])('%s [component.lane-guard]', async (_what, change, reason) => {
    expect(lane(await direct(change))).toBe(reason);
  });

  it.each([
    ['another memory', { user: 'env', memory: 'store', realloc: 'libc' }, `${log}#log uses another memory`],
    ['another allocator', { user: 'env', memory: 'libc', realloc: 'store' }, `${log}#log uses another allocator`],
    [
      'a memory of another name',
      { user: 'elsewhere', memory: 'libc', realloc: 'libc' },
      'a core module exports no memory or no cabi_realloc by name',
    ],
  ] as const)('%s [component.lane-guard]', async (_what, options, reason) => {
    expect(lane(await loweredLog(options))).toBe(reason);
  });
});

describe('a shim that is not quite one', () => {
  const own = `the component has its own ${log}#log`;
  const jump = 'i32.const 0\n      call_indirect (type 0)';
  const first = '(export "0" (func 0))';
  const holder = `(core module $thief (import "shim" "$imports" (table 1 funcref)))
    (core instance (instantiate $thief (with "shim" (instance $wit-component-shim-instance))))`;

  it.each([
    ['does more than it should', jump, `nop ${jump}`],
    ['jumps through another slot than it says', jump, `i32.const 1\n call_indirect (type 0)`],
    ['changes what it passes on', 'local.get 2\n', 'local.get 1\n'],
    ['has a second table', first, `${first} (table 1 funcref)`],
    ['has a memory', first, `${first} (memory 1)`],
    ['has a global', first, `${first} (global i32 (i32.const 0))`],
    [
      'exports its table twice',
      '(export "$imports" (table 0))',
      '(export "$imports" (table 0)) (export "x" (table 0))',
    ],
    [
      'fills its table itself',
      '(export "$imports" (table 0))',
      '(export "$imports" (table 0)) (elem (i32.const 0) func 0)',
    ],
    ['runs something at its start', '(export "$imports" (table 0))', '(export "$imports" (table 0)) (func) (start 1)'],
    ['shares its table with another module', '(type (;3;) (result))', `${holder} (type (;3;) (result))`],
  ])('%s', async (_what, found, changed) => {
    expect(lane(await altered(found, changed))).toBe(own);
  });

  it.each([
    [
      'exports something',
      '(elem (;0;) (i32.const 0) func 0)',
      '(export "x" (table 0)) (elem (;0;) (i32.const 0) func 0)',
    ],
    [
      'fills in a function of its own',
      '(elem (;0;) (i32.const 0) func 0)',
      '(func (type 0)) (elem (i32.const 0) func 1)',
    ],
    [
      'fills the table twice',
      '(elem (;0;) (i32.const 0) func 0)',
      '(elem (i32.const 0) func 0) (elem (i32.const 0) func 0)',
    ],
    ['fills it from another place', '(elem (;0;) (i32.const 0) func 0)', '(elem (i32.const 1) func 0)'],
    [
      'fills it with a function of its own through a second import of it',
      '(import "shim" "$imports" (table (;0;) 1 1 funcref))\n    (elem (;0;) (i32.const 0) func 0)',
      `(import "shim" "$imports" (table 1 1 funcref)) (import "shim" "$imports" (table 1 1 funcref))
       (func (type 0)) (elem (table 0) (i32.const 0) func 0) (elem (table 1) (i32.const 0) func 1)`,
    ],
    [
      'has code that could',
      '(elem (;0;) (i32.const 0) func 0)',
      '(elem (i32.const 0) func 0) (func (table.set 0 (i32.const 0) (ref.null func)))',
    ],
  ])('or a fixup that %s', async (_what, found, changed) => {
    expect(lane(await altered(found, changed))).toBe(own);
  });

  async function altered(found: string, changed: string): Promise<Uint8Array> {
    const text = await print(await buildComponent(logging('hello')));
    expect(text.split(found)).toHaveLength(2);
    return fromText(text.replace(found, changed));
  }
});

describe('a guard is respected', () => {
  it(
    'a component in front of the host’s functions sees the calls [component.lane-guard]',
    async () => {
      const guarded = await runFixture(await composed({ guarded: true }));
      expect(guarded).toMatchObject({ reason: 'exit', exitCode: 0, stdout: 'guarded\n' });
      const free = await runFixture(await composed({ guarded: false }));
      expect(free).toMatchObject({ reason: 'exit', exitCode: 0, stdout: 'secret\n' });
    },
    GENEROUS_MS,
  );

  it(
    'and so does a core module [component.lane-guard]',
    async () => {
      // The guest traps unless the time is the guard's 42.
      expect(await runFixture(await direct({ item: '(func $guarded)' }))).toMatchObject({
        reason: 'exit',
        exitCode: 0,
      });
      expect(await runFixture(await direct({}))).toMatchObject({ reason: 'trap' });
    },
    GENEROUS_MS,
  );
});

/** A guest that logs "secret", given the host's log or that of a guard which says "guarded" instead. */
async function composed({ guarded }: { readonly guarded: boolean }): Promise<Uint8Array> {
  const guest = await buildComponent(logging('secret'));
  const core = guestModule({
    calls: ['log'],
    body: `
      (data (i32.const 0) "guarded")
      (func (export "${log}#log") (param i32 i32 i32) (result i32)
        (call $log (local.get 0) (i32.const 0) (i32.const 7) (i32.const 512))
        (i32.const 512))`,
  });
  const guard = await buildComponent(core, {
    wit: `${spearWit} world guard { import log; export log; }`,
    world: 'guard',
  });
  const types = `(with "${interfaceName('types')}" (instance $${interfaceName('types')}))`;
  const given = (instance: string) => `${types} (with "${log}" (instance ${instance}))`;
  return fromText(`(component ${await importsText(guest)}
    ${await nestedText(guard, 'guard')}
    ${await nestedText(guest, 'guest')}
    (instance $guard (instantiate $guard ${given(`$${log}`)}))
    (alias export $guard "${log}" (instance $guarded))
    (instance $guest (instantiate $guest ${given(guarded ? '$guarded' : `$${log}`)}))
    (alias export $guest "run" (func $run))
    (export "run" (func $run)))`);
}

const heap = `(memory (export "memory") 1)
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)`;
const entry = `(alias core export $i "run" (core func $run))
  (func $entry (result (result)) (canon lift (core func $run))) (export "run" (func $entry))`;

/** A component that asks for the time, from wherever it is given. */
function direct({ item = '(func $time)', given = '(instance $x)' }): Promise<Uint8Array> {
  return fromText(`(component
    (import "${clock}" (instance $c (export "time-now-ms" (func (result s64))) (export "wall-time-s" (func (result s64)))))
    (core module $guard (func (export "time-now-ms") (result i64) i64.const 42))
    (core instance $guard (instantiate $guard))
    (alias core export $guard "time-now-ms" (core func $guarded))
    (alias export $c "time-now-ms" (func $t)) (core func $time (canon lower (func $t)))
    (alias export $c "wall-time-s" (func $w)) (core func $other (canon lower (func $w)))
    (core instance $x (export "time-now-ms" ${item}))
    (core module $m
      (import "${clock}" "time-now-ms" (func $now (result i64))) ${heap}
      (func (export "run") (result i32)
        (if (i64.ne (call $now) (i64.const 42)) (then unreachable)) (i32.const 0)))
    (core instance $i (instantiate $m (with "${clock}" ${given})))
    ${entry})`);
}

interface LoweredLog {
  /** Where the module that calls has its memory and allocator. */
  readonly user: 'env' | 'elsewhere';
  /** Whose memory and allocator the lowered function is told to use; the module has those of `libc`. */
  readonly memory: 'libc' | 'store';
  readonly realloc: 'libc' | 'store';
}

/** A component that lowers `log` by hand, for a module that has its memory from another one. */
function loweredLog({ user, memory, realloc }: LoweredLog): Promise<Uint8Array> {
  const imported = (from: string) =>
    `(import "${from}" "memory" (memory 1)) (import "${from}" "cabi_realloc" (func (param i32 i32 i32 i32) (result i32)))`;
  const from = user === 'elsewhere' ? 'libc' : 'env';
  return fromText(`(component
    (type $t (instance (type (enum "eperm" "enoent")) (export "errno" (type (eq 0)))
      (type (result (error 1))) (export "log" (func (param "level" s32) (param "message" string) (result 2)))))
    (import "${log}" (instance $log (type $t)))
    (core module $heap ${heap})
    (core instance $libc (instantiate $heap))
    (core instance $store (instantiate $heap))
    (alias core export $${memory} "memory" (core memory $memory))
    (alias core export $${realloc} "cabi_realloc" (core func $realloc))
    (alias export $log "log" (func $f))
    (core func $lowered (canon lower (func $f) (memory $memory) (realloc $realloc)))
    (core instance $x (export "log" (func $lowered)))
    (core module $m
      (import "${log}" "log" (func (param i32 i32 i32 i32))) ${imported(from)}
      (func (export "run") (result i32) i32.const 0))
    (core instance $i (instantiate $m (with "${log}" (instance $x)) (with "${from}" (instance $libc))))
    ${entry})`);
}
