import { readFileSync } from 'node:fs';
import { componentEmbed, componentNew, parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import type { CallName } from '../../src/runtime/abi/calls.ts';
import { interfaceName, type WitFunction, witFunctions } from '../../src/runtime/abi/wit.ts';

const spearWit = readFileSync(new URL('../../wit/spear.wit', import.meta.url), 'utf8');
const ADAPTER = '../../node_modules/@bytecodealliance/jco/lib/wasi_snapshot_preview1.command.wasm';

/** Core parameters of a function: a string or list is an address and a length. */
export const flatParams = ({ params }: WitFunction): string[] =>
  params.flatMap(({ type }) => (type === 'string' || type === 'list<u8>' ? ['i32', 'i32'] : ['i32']));

export const flatResult = ({ value }: WitFunction): string => (value === 'none' ? '' : value === 's64' ? 'i64' : 'i32');

/** Whether the result of an import goes into memory that its caller names. */
export const hasReturnArea = ({ value, fallible }: WitFunction): boolean =>
  fallible || value === 'string' || value.startsWith('list<');

export const resultText = (type: string): string => (type === '' ? '' : `(result ${type})`);

/** The import of a function of `spear:host`, as `$cchat-create` and so on. */
export function importText(fn: WitFunction): string {
  const params = [...flatParams(fn), ...(hasReturnArea(fn) ? ['i32'] : [])];
  const type = `(param ${params.join(' ')}) ${hasReturnArea(fn) ? '' : resultText(flatResult(fn))}`;
  return `(import "${interfaceName(fn.interface)}" "${fn.name}" (func $${fn.name} ${type}))`;
}

/** It never gives memory back, and grows it as it must. */
const ALLOCATOR = `
  (global $next (mut i32) (i32.const 4096))
  (func $realloc (export "cabi_realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32)
    (result i32) (local $ptr i32)
    (local.set $ptr (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $ptr) (local.get $new)))
    (block $fits
      (br_if $fits (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
      (drop (memory.grow (i32.add (i32.div_u (local.get $new) (i32.const 65536)) (i32.const 1)))))
    (local.get $ptr))`;

export interface GuestText {
  /** Calls that the guest imports. */
  readonly calls?: readonly CallName[];
  /** What stands in the module: data, functions, and its exports. */
  readonly body: string;
  /** Pages of its memory. @default 1 */
  readonly pages?: number;
  /** @default one that never gives memory back */
  readonly allocator?: string;
}

/** The core module of a component, as text. */
export function guestModule({ calls = [], body, pages = 1, allocator = ALLOCATOR }: GuestText): string {
  const imported = witFunctions.filter(({ call }) => calls.includes(call)).map(importText);
  return `(module ${imported.join('\n')} (memory (export "memory") ${pages}) ${allocator} ${body})`;
}

/** A component whose `run` executes the instructions and succeeds. */
export function running(
  instructions: string,
  guest: Omit<GuestText, 'body'> & { readonly body?: string } = {},
): Promise<Uint8Array> {
  const body = `${guest.body ?? ''} (func (export "run") (result i32) ${instructions} (i32.const 0))`;
  return componentOf(guestModule({ ...guest, body }), 'include imports; export run: func() -> result;');
}

/** A component of a world of its own. */
export async function componentOf(core: string, world: string): Promise<Uint8Array> {
  const witSource = `${spearWit}\nworld tested { ${world} }`;
  return componentNew(await componentEmbed({ binary: await parse(core), witSource, world: 'tested' }));
}

/** A program of WASI preview 1 as a component of WASI 0.2, by the adapter that its toolchains use. */
export async function adapted(core: string | Uint8Array): Promise<Uint8Array> {
  const adapter = readFileSync(new URL(ADAPTER, import.meta.url));
  const module = typeof core === 'string' ? await parse(core) : core;
  return componentNew(module, [['wasi_snapshot_preview1', adapter]]);
}
