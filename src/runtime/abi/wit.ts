import { abiVersion, type Call, type CallName, calls, type Param } from './calls.ts';
import { type ErrnoName, errnoNames } from './errno.ts';

/** `spear:host`, in the version of the ABI. */
export const witPackage = {
  namespace: 'spear',
  name: 'host',
  version: `${abiVersion.major}.${abiVersion.minor}.0`,
} as const;

export type WitParamType = 'fd' | 's32' | 'string' | 'list<u8>';

/** Type of a successful result; `ready` is the record of `spear-epoll-wait`. */
export type WitValue = 'none' | 'fd' | 's32' | 's64' | 'bool' | 'string' | 'list<u8>' | 'list<ready>';

/** A hostcall as a component imports it. */
export interface WitFunction {
  readonly call: CallName;
  readonly interface: string;
  readonly name: string;
  readonly params: readonly { readonly name: string; readonly type: WitParamType }[];
  readonly value: WitValue;
  /** `result<value, errno>`; otherwise the value alone. */
  readonly fallible: boolean;
}

const interfaces: readonly (readonly [prefix: string, name: string])[] = [
  ['spear_epoll_', 'poll'],
  ['spear_fd_', 'poll'],
  ['spear_', 'system'],
  ['time_', 'clock'],
  ['wall_', 'clock'],
  ['random_', 'clock'],
  ['sleep_', 'clock'],
  ['log', 'log'],
  ['cchat_', 'cchat'],
  ['mcp_', 'mcp'],
  ['user_stream_', 'user-stream'],
  ['rtasr_', 'rtasr'],
  ['mic_', 'mic'],
];

/** A component's tools are always handed back: it has no function table that the host could reach. */
export const HANDED_BACK = -1;
const onlyInCore = new Set(['fn_offset']);

/** Errnos about pointers and buffers, which a component does not have. */
const ofPointers: readonly string[] = ['EFAULT', 'ENOSPC'] satisfies ErrnoName[];

/** The hostcalls as `wit/spear.wit` declares them. */
export const witFunctions: readonly WitFunction[] = calls.map((row: Call) => ({
  call: row.name as CallName,
  interface: interfaceOf(row),
  name: kebab(row.name),
  params: row.params.filter(({ kind, name }) => kind !== 'out' && !onlyInCore.has(name)).map(witParam),
  value: witValue(row),
  fallible: Object.keys(row.errnos).some((name) => !ofPointers.includes(name)),
}));

/** Cases of `enum errno`; a value is passed as the index of its case. */
export const witErrnos: readonly string[] = errnoNames.map((name) => name.toLowerCase());

export const errnoOrdinal = Object.freeze(
  Object.fromEntries(errnoNames.map((name, ordinal) => [name, ordinal])),
) as Readonly<Record<ErrnoName, number>>;

export const interfaceName = (name: string) =>
  `${witPackage.namespace}:${witPackage.name}/${name}@${witPackage.version}`;

function kebab(name: string): string {
  return name.replaceAll('_', '-');
}

function interfaceOf(row: Call): string {
  const found = interfaces.find(([prefix]) => row.name.startsWith(prefix));
  if (!found) throw new Error(`${row.name} is not part of any interface of wit/spear.wit`);
  return found[1];
}

function witParam({ name, kind }: Param): WitFunction['params'][number] {
  if (kind === 'fd') return { name: kebab(name), type: 'fd' };
  if (kind === 'i32') return { name: kebab(name), type: 's32' };
  return { name: kebab(name), type: kind === 'bytes' ? 'list<u8>' : 'string' };
}

function witValue(row: Call): WitValue {
  if (row.result === 'i64') return 's64';
  if (row.result === 'none' || row.gives === 'nothing') return 'none';
  if (row.gives === 'fd') return 'fd';
  if (row.gives === 'number') return row.name === 'spear_feature' ? 'bool' : 's32';
  if (row.name === 'spear_epoll_wait') return 'list<ready>';
  return row.params.some(({ kind, bytes }) => kind === 'out' && bytes) ? 'list<u8>' : 'string';
}
