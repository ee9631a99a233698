import type { Chance } from '../../../durable/guest/chance.ts';
import type { Output } from '../../hostcalls/output.ts';
import type { Leash } from '../../leash.ts';
import { trapGuest } from '../../uncatchable.ts';
import { absentInterfaces } from './absent.ts';
import { type Hold, Pollable, readyAt } from './poll.ts';
import type { ServedWasi } from './served.ts';
import { InputStream, IoError, OutputStream, type StdinSource } from './streams.ts';

/** What a component sees of the system: nothing but what is passed in. */
export interface Preview2Options {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly output: Output;
  readonly chance: Chance;
  readonly stdin: StdinSource;
  /** Bytes that can be asked for at once; more would not fit the guest's memory. */
  readonly maxListBytes: number;
  /** Ends the guest: it throws what the guest cannot catch. */
  readonly exit: (code: number) => never;
  /** @default null: the guest has its thread for itself */
  readonly leash?: Leash | null;
}

const MS_PER_S = 1000;
const NS_PER_MS = 1_000_000;
const MONOTONIC_RESOLUTION_NS = 1n;

/** A terminal is never told of: what the guest writes may go anywhere. */
const noTerminal = () => undefined;
class Terminal {}

/**
 * The part of WASI 0.2 that a guest without files and sockets needs, as jco wants it. Our own: preview2-shim starts a
 * thread when it is loaded, and its clocks and polls hold the guest's thread while they wait.
 */
export function preview2(options: Preview2Options): Readonly<Record<ServedWasi, object>> {
  const { args, env, output, chance, exit, leash = null } = options;
  const hold: Hold = leash === null ? (wait) => wait : (wait) => leash.hold(wait) as typeof wait;
  const now = () => chance.monotonicNs();
  const stdin = new InputStream(options.stdin, hold);
  const stdout = new OutputStream(output, 'stdout', hold);
  const stderr = new OutputStream(output, 'stderr', hold);

  const randomBytes = (length: bigint) => {
    if (length > BigInt(options.maxListBytes))
      trapGuest(`the guest requested ${length} random bytes, more than its memory can hold`);
    const bytes = new Uint8Array(Number(length));
    chance.fillRandom(bytes);
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
      subscribeInstant: (deadline: bigint) => new Pollable(readyAt(deadline, chance), hold),
      subscribeDuration: (duration: bigint) => new Pollable(readyAt(now() + duration, chance), hold),
    },
    'wasi:clocks/wall-clock': {
      now: () => {
        const ms = chance.wallMs();
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
