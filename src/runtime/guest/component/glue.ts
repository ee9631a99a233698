import type { Call } from '../../abi/calls.ts';
import { Failure, fail } from '../../abi/errno.ts';
import { ModuleError } from '../../abi/guest-module.ts';
import { HANDED_BACK, type WitFunction } from '../../abi/wit.ts';
import { type AnyHandler, count, handlerOf, type Later, textLimit, type Value } from '../binding/marshal.ts';
import { RECORD_BYTES } from '../hostcalls/epoll.ts';
import type { GuestState } from '../hostcalls/guest-state.ts';
import type { Body, HostcallTable } from '../hostcalls/table.ts';
import { type ComponentCall, commandArgument, componentCalls } from './calls.ts';

type GlueFunction = (...given: unknown[]) => unknown;

/** A `result` as jco accepts it; a thrown error would be slower. */
type GlueResult = { readonly tag: 'ok'; readonly val: unknown } | { readonly tag: 'err'; readonly val: string };

/**
 * An interface of `spear:host` for jco's glue: values in, values out. It serves components that may not use the fast lane,
 * with the same handlers.
 */
export function glueInterface(
  table: HostcallTable,
  guest: GuestState,
  counts: Float64Array,
  interfaceName: string,
): Record<string, GlueFunction> {
  const own = componentCalls.filter(({ wit }) => wit.interface === interfaceName);
  return Object.fromEntries(
    own.map((call) => [camelCase(call.wit.name), bindCall(handlerOf(table, call.row), guest, counts, call)]),
  );
}

const camelCase = (name: string): string => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

function bindCall(
  handler: AnyHandler,
  guest: GuestState,
  counts: Float64Array,
  { row, index, wit }: ComponentCall,
): GlueFunction {
  const limits = row.params.map((_, at) => textLimit(guest.limits, row, at));
  const answer = (...given: unknown[]): Later => {
    if (row.support === 'absent') return handler(guest);
    count(counts, index);
    const args = argumentsOf(row, limits, given);
    return args instanceof Failure ? args : handler(guest, ...args);
  };
  return (...given) => {
    const value = answer(...given);
    return value instanceof Promise ? value.then((settled) => toGlue(wit, settled)) : toGlue(wit, value);
  };
}

function argumentsOf(
  row: Call,
  limits: readonly number[],
  given: readonly unknown[],
): (number | string | Uint8Array | undefined)[] | Failure {
  const left = [...given];
  const args: (number | string | Uint8Array | undefined)[] = [];
  for (const [index, { kind, name }] of row.params.entries()) {
    const limit = limits[index] as number;
    if (kind === 'out') args.push(Number.POSITIVE_INFINITY);
    else if (name === 'fn_offset') args.push(HANDED_BACK);
    else if (kind === 'arg') {
      const command = row.commands[args.at(-1) as number];
      if (!command) return fail.EINVAL;
      args.push(commandArgument(command, within(limit, left.shift())));
    } else if (kind === 'text') args.push(within(limit, left.shift()));
    else if (kind === 'bytes') {
      const given = left.shift() as Uint8Array;
      args.push(given.byteLength > limit ? undefined : given);
    } else args.push(left.shift() as number);
  }
  return args;
}

/** Undefined for a text beyond its limit, as in every binding. */
function within(limit: number, given: unknown): string | undefined {
  const text = typeof given === 'string' ? given : Buffer.from(given as Uint8Array).toString();
  return Buffer.byteLength(text) > limit ? undefined : text;
}

function toGlue({ value, fallible }: WitFunction, given: Value): unknown {
  if (!fallible) return value === 'bool' ? given === 1 : given;
  if (given instanceof Failure) return { tag: 'err', val: given.name.toLowerCase() } satisfies GlueResult;
  return { tag: 'ok', val: payload(value, given) } satisfies GlueResult;
}

function payload(value: WitFunction['value'], given: Value): unknown {
  if (value === 'none') return undefined;
  if (value === 'string') return typeof given === 'number' ? '' : asText(given as Body);
  if (value === 'list<u8>') return typeof given === 'string' ? Buffer.from(given) : given;
  if (value === 'list<ready>') return asRecords(given as Uint8Array);
  return given;
}

const asText = (body: Body): string =>
  typeof body === 'string' ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();

function asRecords(bytes: Uint8Array): { readonly fd: number; readonly events: number }[] {
  const words = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: bytes.byteLength / RECORD_BYTES }, (_, index) => ({
    fd: words.getInt32(index * RECORD_BYTES, true),
    events: words.getInt32(index * RECORD_BYTES + 4, true),
  }));
}

/** The function that jco generates for a component. `imports` has interfaces by name, with and without version. */
export type Instantiate = (
  getCoreModule: (name: string) => WebAssembly.Module,
  imports: Readonly<Record<string, unknown>>,
  instantiateCore: (module: WebAssembly.Module, imports?: WebAssembly.Imports) => WebAssembly.Instance,
) => Promise<ComponentExports> | ComponentExports;

export type ComponentExports = Readonly<Record<string, unknown>>;

const ENTRY = 'export function instantiate(';
const REST = /\nexport const _util = \{\s*\}/;
/** Includes the bracket, which no guest name can contain: a guest name may be `import.meta.url`. */
const OWN_ADDRESS = ', import.meta.url)';

const silent = () => {};

/**
 * Globals that are hidden from the glue: it needs none of them, and its console output would mix with the guest's. Not a
 * sandbox, because the text was admitted before; it prevents use by mistake.
 */
const hidden: Readonly<Record<string, unknown>> = {
  process: undefined,
  require: undefined,
  fetch: undefined,
  module: undefined,
  exports: undefined,
  console: { debug: silent, error: silent, log: silent, warn: silent },
};

/**
 * Compiles the glue as a function of this context rather than as a module: takes a third of the time, needs no file that
 * could be replaced meanwhile, and leaves `import()` without a loader.
 */
export function evaluateGlue(glue: string): Instantiate {
  const { compileFunction } = process.getBuiltinModule('node:vm');
  const body = glue
    .replace(ENTRY, ENTRY.replace('export ', ''))
    .replace(REST, '')
    .replace(OWN_ADDRESS, ", 'component:')");
  if (!glue.includes(ENTRY) || /^export /m.test(body)) {
    throw new ModuleError(
      'the generated glue code of the component has an unknown form: another version of jco made it',
    );
  }
  const make = compiled(() =>
    compileFunction(`'use strict';\n${body}\nreturn instantiate;`, Object.keys(hidden), { filename: 'component.js' }),
  );
  return make(...Object.values(hidden)) as Instantiate;
}

/** Some component names become JavaScript variables of the glue, and not every name is valid there. */
function compiled<T>(compile: () => T): T {
  try {
    return compile();
  } catch (error) {
    const reason = (error as Error).message;
    throw new ModuleError(
      `jco generated invalid JavaScript for the component (${reason}); rename the exports of the component`,
    );
  }
}
