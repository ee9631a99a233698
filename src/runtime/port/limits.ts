import { unknownKey } from '../../base/validation.ts';

/** One bound on what a guest may use. `limits` in the task config, same names. */
export interface LimitSpec {
  readonly default: number;
  readonly min: number;
  readonly max: number;
  readonly doc: string;
}

const MIB = 1024 * 1024;
const PAGE = 65_536;

export const limitSpecs = {
  timeout_ms: {
    default: 30 * 60_000,
    min: 1,
    max: 7 * 24 * 3_600_000,
    doc: 'wall-clock deadline of the run, from the start of its guest and over all its attempts; then the guest is terminated and spear-run exits with 124',
  },
  memory_bytes: {
    default: 256 * MIB,
    min: PAGE,
    max: 4096 * MIB,
    doc: 'maximum linear memory of the guest, rounded down to 64 KiB pages; memory.grow fails beyond it',
  },
  table_elements: {
    default: 1_000_000,
    min: 1,
    max: 10_000_000,
    doc: 'maximum entries of a function table; table.grow fails beyond it',
  },
  module_bytes: { default: 128 * MIB, min: 8, max: 1024 * MIB, doc: 'maximum size of a module' },
  transpile_ms: {
    default: 60_000,
    min: 1,
    max: 3_600_000,
    doc: 'deadline for compiling a component that is not in the cache',
  },
  max_fds: { default: 1024, min: 1, max: 1_000_000, doc: 'open file descriptors; EMFILE beyond it' },
  max_sessions: { default: 256, min: 1, max: 100_000, doc: 'open chat sessions; EMFILE beyond it' },
  max_message_bytes: {
    default: 4 * MIB,
    min: 1,
    max: 64 * MIB,
    doc: 'size of one message, tool definition, tool result or tool argument; EMSGSIZE beyond it',
  },
  max_param_bytes: {
    default: 256 * 1024,
    min: 16,
    max: 16 * MIB,
    doc: 'size of one SET_PARAM or SET_FLAGS; EMSGSIZE beyond it',
  },
  max_session_bytes: {
    default: 64 * MIB,
    min: 1,
    max: 1024 * MIB,
    doc: 'total size of what a guest writes to one chat session; ENOMEM beyond it',
  },
  max_chat_bytes: {
    default: 256 * MIB,
    min: 1,
    max: 16_384 * MIB,
    doc: 'total size of what a guest writes to all its open chat sessions; ENOMEM beyond it',
  },
  max_pending_calls: {
    default: 1024,
    min: 1,
    max: 100_000,
    doc: 'submitted MCP calls without a result, and sends and calls in flight; EAGAIN beyond it',
  },
  max_pending_bytes: {
    default: 64 * MIB,
    min: 1,
    max: 4096 * MIB,
    doc: 'total argument size of MCP calls in flight; EAGAIN beyond it',
  },
  max_answer_bytes: {
    default: 256 * MIB,
    min: 1,
    max: 16_384 * MIB,
    doc: 'total size of responses to sends and MCP calls that the guest has not closed; beyond it the next one fails with ENOMEM',
  },
  approval_timeout_ms: {
    default: 2 * 60_000,
    min: 1,
    max: 24 * 3_600_000,
    doc: 'how long a tool call waits for its approval before it is denied',
  },
  log_bytes_per_second: {
    default: MIB,
    min: 1024,
    max: 1024 * MIB,
    doc: 'output of the log call; further lines are dropped and counted in one line on stderr',
  },
  turn_ms: {
    default: 250,
    min: 10,
    max: 60_000,
    doc: 'how long a guest may run on a shared thread without yielding; then the thread is terminated and the module gets a dedicated thread',
  },
  journal_bytes: {
    default: 64 * MIB,
    min: 64 * 1024,
    max: 1024 * MIB, // what is written can be read again
    doc: 'maximum size of a journal; a run that would write more ends with the reason journal',
  },
} as const satisfies Record<string, LimitSpec>;

export type LimitName = keyof typeof limitSpecs;
export type Limits = Readonly<Record<LimitName, number>>;

export const limitNames = Object.keys(limitSpecs) as LimitName[];

/** Why a value is invalid for a limit; null: it is valid. */
export function limitProblem(name: LimitName, value: unknown): string | null {
  const { min, max } = limitSpecs[name];
  const fits = Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
  return fits ? null : `expected a whole number from ${min} to ${max}, found ${JSON.stringify(value) ?? String(value)}`;
}

/**
 * The limits of a run, with defaults.
 * @throws RangeError that names the unknown limit or the one out of range
 */
export function compileLimits(given: Readonly<Partial<Record<LimitName, number | undefined>>> = {}): Limits {
  const unknown = unknownKey(given, limitNames);
  if (unknown !== null) throw new RangeError(`limits: ${unknown}`);
  if (limitNames.every((name) => (given[name] ?? limitSpecs[name].default) === lastCompiled?.[name])) {
    return lastCompiled as Limits;
  }
  const entries = limitNames.map((name) => {
    const value = given[name] ?? limitSpecs[name].default;
    const problem = limitProblem(name, value);
    if (problem !== null) throw new RangeError(`limits.${name}: ${problem}`);
    return [name, value];
  });
  lastCompiled = Object.freeze(Object.fromEntries(entries)) as Limits;
  return lastCompiled;
}

/** Shared by runs with equal limits: thousands may wait at once. */
let lastCompiled: Limits | null = null;
