import { didYouMean } from '../../../base/validation.ts';
import { wasiFunctionTypes } from '../../../generated/wasi-types.ts';
import { type Call, calls } from '../../abi/calls.ts';
import { ModuleError } from '../../abi/guest-module.ts';
import {
  type WitFunction,
  type WitParamType,
  type WitValue,
  witErrnos,
  witFunctions,
  witPackage,
} from '../../abi/wit.ts';
import { servesFunction } from '../../guest/component/wasi/preview2.ts';
import { servedWasi } from '../../guest/component/wasi/served.ts';
import type { Item } from './link-component.ts';
import { type DeclaredItem, type DeclaredItems, typeText } from './type-scope.ts';

/*
 * Checks of a linked component: its imports against the interfaces of this host, its entry point, and the list of imports
 * that suspend.
 */

/** Maximum number of problems in a message. */
const MOST_COMPLAINTS = 20;

/** Interface without functions that defines types for the others. */
const TYPES = 'types';

const errnoText = `enum { ${witErrnos.join(', ')} }`;
const readyText = 'record { fd: s32, events: s32 }';
const ourTypes = new Map([
  ['fd', 's32'],
  ['errno', errnoText],
  ['ready', readyText],
]);

const wasiVersion = { major: 0, minor: 2 } as const; // any patch of it: they only add
const wasiInterfaces: ReadonlySet<string> = new Set(servedWasi);

const ourPackage = `${witPackage.namespace}:${witPackage.name}`;
const ourInterfaces = new Map<string, Map<string, WitFunction>>([[TYPES, new Map()]]);
for (const row of witFunctions) {
  const functions = ourInterfaces.get(row.interface) ?? new Map<string, WitFunction>();
  ourInterfaces.set(row.interface, functions.set(row.name, row));
}

/**
 * Compares the imports of a component with the interfaces of this host, by name, version and type. In the fast lane this is
 * the only check of the types.
 */
export function checkImports(imports: ReadonlyMap<string, DeclaredItem>): void {
  const complaints = [...imports].flatMap(([name, item]) => complaintsAbout(name, item));
  if (complaints.length === 0) return;
  const more = complaints.length > MOST_COMPLAINTS ? `; and ${complaints.length - MOST_COMPLAINTS} more` : '';
  const shown = complaints.slice(0, MOST_COMPLAINTS).join('; ');
  throw new ModuleError(`the component has imports that this host does not provide: ${shown}${more}`);
}

function complaintsAbout(name: string, item: DeclaredItem): string[] {
  const wanted = /^([a-z][\w-]*:[a-z][\w-]*)\/([a-z][\w-]*)(?:@(.*))?$/.exec(name);
  if (item.sort !== 'instance' || !wanted) return [`${name} (not an interface of spear:host or wasi)`];
  const [, from = '', interfaceName = '', version] = wanted;
  if (from === ourPackage) return spearComplaints(name, interfaceName, version, item.items);
  if (from.startsWith('wasi:')) return wasiComplaints(name, `${from}/${interfaceName}`, version, item.items);
  return [name];
}

function spearComplaints(
  name: string,
  interfaceName: string,
  version: string | undefined,
  items: DeclaredItems,
): string[] {
  if (!isCompatible(version)) {
    return [
      `${name} (this host has ${ourPackage} ${witPackage.version}: the major version must be equal, the minor version not higher)`,
    ];
  }
  const functions = ourInterfaces.get(interfaceName);
  if (!functions) {
    const hint = didYouMean(interfaceName, [...ourInterfaces.keys()]);
    return [hint ? `${name} (${hint})` : name];
  }
  return [...items].flatMap(([item, declared]) => itemComplaints(name, item, declared, functions));
}

function itemComplaints(
  from: string,
  name: string,
  declared: DeclaredItem,
  functions: ReadonlyMap<string, WitFunction>,
): string[] {
  if (declared.sort === 'type') {
    const ours = ourTypes.get(name);
    if (ours === undefined) return [`the type ${from}#${name}`];
    const found = typeText(declared.type);
    return found === ours ? [] : [`${from}#${name} as ${found} (this host has ${ours})`];
  }
  if (declared.sort !== 'func') return [`${from}#${name} (not a function)`];
  const row = functions.get(name);
  if (!row) {
    const hint = didYouMean(name, [...functions.keys()]);
    return [hint ? `${from}#${name} (${hint})` : `${from}#${name}`];
  }
  const [found, ours] = [typeText(declared.type), functionText(row)];
  return found === ours ? [] : [`${from}#${name} as ${named(found)} (this host has ${named(ours)})`];
}

/** Whether a version is compatible: the same major version and no newer minor version. */
function isCompatible(version: string | undefined): boolean {
  const [major, minor] = numbers(version);
  const [ourMajor, ourMinor] = numbers(witPackage.version);
  return major === ourMajor && minor <= ourMinor;
}

function wasiComplaints(
  name: string,
  interfaceName: string,
  version: string | undefined,
  items: DeclaredItems,
): string[] {
  const [major, minor] = numbers(version);
  if (major !== wasiVersion.major || minor !== wasiVersion.minor) {
    return [`${name} (this host has WASI ${wasiVersion.major}.${wasiVersion.minor})`];
  }
  if (!wasiInterfaces.has(interfaceName)) return [name];
  return [...items].flatMap(([item, declared]) => {
    if (declared.sort !== 'func') return [];
    const published = wasiFunctionTypes[`${interfaceName}#${item}`];
    if (published === undefined || !servesFunction(interfaceName, item)) return [`${name}#${item}`];
    // jco trusts the import types that a component declares: with another type it would misread host results.
    const found = typeText(declared.type);
    return found === published ? [] : [`${name}#${item} as ${found} (WASI has ${published})`];
  });
}

/** Major and minor of `1.2.3`; what is no release has none. */
function numbers(version: string | undefined): readonly [number, number] {
  const found = /^(\d{1,9})\.(\d{1,9})\.\d{1,9}$/.exec(version ?? '');
  return found ? [Number(found[1]), Number(found[2])] : [Number.NaN, Number.NaN];
}

const valueTexts: Readonly<Record<WitParamType | WitValue, string>> = {
  none: '_',
  fd: 's32',
  s32: 's32',
  s64: 's64',
  bool: 'bool',
  string: 'string',
  'list<u8>': 'list<u8>',
  'list<ready>': `list<${readyText}>`,
};

function functionText({ params, value, fallible }: WitFunction): string {
  const list = params.map(({ name, type }) => `${name}: ${valueTexts[type]}`).join(', ');
  const result = fallible ? `result<${valueTexts[value]}, ${errnoText}>` : value === 'none' ? '' : valueTexts[value];
  return `func(${list})${result ? ` -> ${result}` : ''}`;
}

/** Names of well-known types. */
const named = (text: string) => text.replaceAll(errnoText, 'errno').replaceAll(readyText, 'ready');

const modes = new Map(calls.map((row: Call) => [row.name, row.mode]));

const HOST = `${witPackage.namespace}:${witPackage.name}/`;

/** WASI functions that may suspend. Output is written synchronously, so its blocking forms never do. */
const waitingInWasi: readonly (readonly [interfaceName: string, functions: readonly string[]])[] = [
  ['wasi:io/poll', ['poll', '[method]pollable.block']],
  [
    'wasi:io/streams',
    [
      '[method]input-stream.blocking-read',
      '[method]input-stream.blocking-skip',
      '[method]output-stream.blocking-splice',
    ],
  ],
];

/** Suspending functions by interface without version. */
const waitingFunctions: ReadonlyMap<string, ReadonlySet<string>> = waiting();

/**
 * Imports that jco must generate as suspending: `spear:host/cchat@1.0.0#cchat-send`, with the versions that the
 * component asks for.
 */
export function asyncImports(imports: readonly string[]): string[] {
  return imports.flatMap((name) =>
    [...(waitingFunctions.get(withoutVersion(name)) ?? [])].map((fn) => `${name}#${fn}`),
  );
}

const withoutVersion = (name: string) => name.replace(/@.*$/, '');

function waiting(): Map<string, Set<string>> {
  const found = new Map(waitingInWasi.map(([name, functions]) => [name, new Set(functions)]));
  for (const { call, interface: own, name } of witFunctions) {
    if (modes.get(call) !== 'suspending') continue;
    const key = HOST + own;
    found.set(key, (found.get(key) ?? new Set()).add(name));
  }
  return found;
}

const OWN_ENTRY = 'run';
const ENTRY_TYPE = 'func() -> result';
const WASI_ENTRY = /^wasi:cli\/run@0\.2\.\d+$/;

/** Entry export: `wasi:cli/run`, else `run`. */
export function entryOf(exports: ReadonlyMap<string, Item>): string {
  for (const [name, item] of exports) {
    if (!WASI_ENTRY.test(name) || item.sort !== 'instance') continue;
    const run = item.instance.kind === 'own' ? item.instance.items.get('run') : undefined;
    checkEntry(`${name}#run`, run);
    return name;
  }
  const own = exports.get(OWN_ENTRY);
  if (own) {
    checkEntry(OWN_ENTRY, own);
    return OWN_ENTRY;
  }
  const others = [...exports.keys()].slice(0, 5).join(', ');
  throw new ModuleError(
    `the component has no entry point: it exports neither run: ${ENTRY_TYPE} nor wasi:cli/run@0.2 (exports: ${others || 'none'})`,
  );
}

function checkEntry(name: string, item: Item | undefined): void {
  if (item?.sort !== 'func' || item.func.kind !== 'own')
    throw new ModuleError(`the export ${name} is not a function of the component`);
  const found = typeText(item.func.type);
  if (found !== ENTRY_TYPE) throw new ModuleError(`the export ${name} has type ${found}; expected ${ENTRY_TYPE}`);
}
