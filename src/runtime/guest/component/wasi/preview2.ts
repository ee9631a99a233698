import { type DeterministicSources, systemSources } from '../../../durable/guest/sources.ts';
import type { CancellationScope } from '../../cancellation-scope.ts';
import type { Output } from '../../hostcalls/output.ts';
import { trapGuest } from '../../trap.ts';
import type { ServedWasi } from './served.ts';
import { type Hold, InputStream, IoError, OutputStream, Pollable, readyAt, type StdinSource } from './streams.ts';

/** Everything that a component sees of the system. */
export interface Preview2Options {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly output: Output;
  readonly sources: DeterministicSources;
  readonly stdin: StdinSource;
  /** Upper bound of requested bytes: more would not fit the guest's memory. */
  readonly maxListBytes: number;
  /** Ends the guest by throwing a trap. */
  readonly exit: (code: number) => never;
  /** @default null: the guest has a dedicated thread */
  readonly scope?: CancellationScope | null;
}

const MS_PER_S = 1000;
const NS_PER_MS = 1_000_000;
const MONOTONIC_RESOLUTION_NS = 1n;

/** The standard streams are never reported as a terminal. */
const noTerminal = () => undefined;
class Terminal {}

/**
 * WASI 0.2 for a guest without files and sockets, in the form that jco expects. Not preview2-shim, which starts a thread
 * when it is loaded, and whose clocks and polls block the guest thread.
 */
export function preview2(options: Preview2Options): Readonly<Record<ServedWasi, object>> {
  const { args, env, output, sources, exit, scope = null } = options;
  const hold: Hold = scope === null ? (wait) => wait : (wait) => scope.guard(wait) as typeof wait;
  const now = () => sources.monotonicNs();
  const stdin = new InputStream(options.stdin, hold);
  const stdout = new OutputStream(output, 'stdout', hold);
  const stderr = new OutputStream(output, 'stderr', hold);

  const randomBytes = (length: bigint) => {
    if (length > BigInt(options.maxListBytes))
      trapGuest(`the guest requested ${length} random bytes, more than its memory can hold`);
    const bytes = new Uint8Array(Number(length));
    sources.fillRandom(bytes);
    return bytes;
  };
  const randomU64 = () => new DataView(randomBytes(8n).buffer).getBigUint64(0);

  return {
    ...absentInterfaces,
    'wasi:cli/environment': {
      getEnvironment: () => Object.entries(env),
      getArguments: () => [...args],
      initialCwd: () => undefined,
    },
    'wasi:cli/exit': {
      exit: ({ tag }: { readonly tag: 'ok' | 'err' }) => exit(tag === 'ok' ? 0 : 1),
      exitWithCode: exit,
    },
    'wasi:cli/stdin': { getStdin: () => stdin },
    'wasi:cli/stdout': { getStdout: () => stdout },
    'wasi:cli/stderr': { getStderr: () => stderr },
    'wasi:cli/terminal-input': { TerminalInput: Terminal },
    'wasi:cli/terminal-output': { TerminalOutput: Terminal },
    'wasi:cli/terminal-stdin': { getTerminalStdin: noTerminal },
    'wasi:cli/terminal-stdout': { getTerminalStdout: noTerminal },
    'wasi:cli/terminal-stderr': { getTerminalStderr: noTerminal },
    'wasi:clocks/monotonic-clock': {
      now,
      resolution: () => MONOTONIC_RESOLUTION_NS,
      subscribeInstant: (deadline: bigint) => new Pollable(readyAt(deadline, sources), hold),
      subscribeDuration: (duration: bigint) => new Pollable(readyAt(now() + duration, sources), hold),
    },
    'wasi:clocks/wall-clock': {
      now: () => {
        const ms = sources.wallMs();
        return { seconds: BigInt(Math.floor(ms / MS_PER_S)), nanoseconds: (ms % MS_PER_S) * NS_PER_MS };
      },
      resolution: () => ({ seconds: 0n, nanoseconds: NS_PER_MS }),
    },
    'wasi:io/error': { Error: IoError },
    'wasi:io/poll': { Pollable, poll: Pollable.poll },
    'wasi:io/streams': { InputStream, OutputStream },
    'wasi:random/random': { getRandomBytes: randomBytes, getRandomU64: randomU64 },
    'wasi:random/insecure': { getInsecureRandomBytes: randomBytes, getInsecureRandomU64: randomU64 },
    'wasi:random/insecure-seed': { insecureSeed: () => [randomU64(), randomU64()] },
  };
}

/** A resource of which no guest ever gets an instance. */
class Absent {}

const ACCESS_DENIED = { tag: 'err', val: 'access-denied' } as const;
const denied = () => ACCESS_DENIED;
const nothing = () => undefined;

class Network {}

/**
 * Interfaces that language runtimes import and that have no content here: no directory is open, and creating a socket is
 * denied.
 */
export const absentInterfaces = {
  'wasi:filesystem/preopens': { getDirectories: () => [] },
  'wasi:filesystem/types': { Descriptor: Absent, DirectoryEntryStream: Absent, filesystemErrorCode: nothing },
  'wasi:sockets/instance-network': { instanceNetwork: () => new Network() },
  'wasi:sockets/ip-name-lookup': { resolveAddresses: denied, ResolveAddressStream: Absent },
  'wasi:sockets/network': { Network, networkErrorCode: nothing },
  'wasi:sockets/tcp': { TcpSocket: Absent },
  'wasi:sockets/tcp-create-socket': { createTcpSocket: denied },
  'wasi:sockets/udp': { UdpSocket: Absent, IncomingDatagramStream: Absent, OutgoingDatagramStream: Absent },
  'wasi:sockets/udp-create-socket': { createUdpSocket: denied },
} as const;

type Served = Readonly<Record<string, unknown>>;

/** Interfaces whose functions {@link servesFunction} inspects and never calls; made on first use. */
let inspected: Readonly<Record<string, object>> | undefined;

const inspectedInterfaces = (): Readonly<Record<string, object>> =>
  preview2({
    args: [],
    env: {},
    output: { write: () => false },
    sources: systemSources,
    stdin: { request: () => {}, drain: () => {} },
    maxListBytes: 0,
    exit: () => trapGuest('no guest is running'),
  });

const MEMBER = /^\[(method|static)\]([\w-]+)\.([\w-]+)$/;

/** Whether a WASI interface has a function here, such as `get-stdout` or `[method]pollable.block`. */
export function servesFunction(interfaceName: string, name: string): boolean {
  inspected ??= inspectedInterfaces();
  const served = (inspected[interfaceName] ?? {}) as Served;
  const [, kind, resource, member] = MEMBER.exec(name) ?? [];
  if (kind === undefined || resource === undefined || member === undefined) return isFunction(served, camelCase(name));
  const owner = served[pascalCase(resource)];
  if (typeof owner !== 'function') return false;
  if (kind === 'static') return isFunction(owner as unknown as Served, camelCase(member));
  const methods = owner.prototype as Served;
  // No guest gets an instance of a resource without methods, so any method may be imported.
  return Object.getOwnPropertyNames(methods).length === 1 || isFunction(methods, camelCase(member));
}

const isFunction = (owner: Served, key: string) => Object.hasOwn(owner, key) && typeof owner[key] === 'function';
const camelCase = (name: string) => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
const pascalCase = (name: string) => camelCase(`-${name}`);
