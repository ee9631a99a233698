import type { ErrnoName } from './errno.ts';

/**
 * How one parameter of a call crosses into the host.
 *
 * - `fd`, `i32`: one core parameter
 * - `text`: `(ptr, len)`, UTF-8, invalid bytes replaced
 * - `bytes`: `(ptr, len)`, as they are; a component passes `list<u8>`
 * - `out`: `(out_ptr, out_len_ptr)`, the out-buffer convention
 * - `arg`: `(arg_ptr, arg_len_ptr)` of the `*_ctl` calls: input or out-buffer, as the command says
 */
export type ParamKind = 'fd' | 'i32' | 'text' | 'bytes' | 'out' | 'arg';

/** What bounds a `text` or `bytes`: a name, one log line, one frame of a stream, or the limits of the task. */
export type TextLimit = 'name' | 'log' | 'frame' | 'message' | 'param';

export interface Param {
  readonly name: string;
  readonly kind: ParamKind;
  readonly limit?: TextLimit;
  /** Of an `out`: not text, a component gets `list<u8>`. */
  readonly bytes?: true;
}

/** A command of a `*_ctl` call, and what its `arg` is. */
export interface Command {
  readonly name: string;
  readonly arg: 'in' | 'out' | 'none';
}

export const NAME_BYTES = 4096;
export const LOG_BYTES = 16_384;
/** One frame of a user stream. */
export const FRAME_BYTES = 256 * 1024;
/** Streams that a guest may have open at one time. */
export const MAX_STREAMS = 64;

/** `full`; `partial`: so far it can only fail as its row says; `absent`: links and answers the one errno of its row. */
export type Support = 'full' | 'partial' | 'absent';

export interface Call {
  readonly name: string;
  readonly params: readonly Param[];
  readonly result: 'i32' | 'i64' | 'none';
  /** What an i32 result that is no errno means: a new descriptor, nothing but success, a number, or the bytes written. */
  readonly gives: 'fd' | 'nothing' | 'number' | 'bytes';
  /** A local call never waits for the host; a suspending one may. */
  readonly mode: 'local' | 'suspending';
  readonly support: Support;
  /** Extends the ABI that older hosts implement. */
  readonly ours: boolean;
  readonly summary: string;
  /**
   * What a journal keeps of it besides its hash: messages that are taken while it runs, a value of a clock or of dice,
   * that its wait timed out. Everything it passes, and what it comes to, is hashed.
   */
  readonly records: readonly ('messages' | 'value' | 'timeout')[];
  readonly commands: Readonly<Record<number, Command>>;
  /** Every errno the call may return, with its cause. */
  readonly errnos: Readonly<Partial<Record<ErrnoName, string>>>;
}

interface Options {
  readonly result?: Call['result'];
  readonly gives?: Call['gives'];
  readonly mode?: Call['mode'];
  readonly support?: Support;
  readonly ours?: boolean;
  readonly commands?: Call['commands'];
  readonly records?: Call['records'];
}

type Chosen<O extends Options, Key extends keyof Options, Default> =
  O extends Record<Key, infer Value> ? Value : Default;

const usual = {
  result: 'i32',
  mode: 'local',
  support: 'full',
  ours: false,
  commands: {},
  records: ['messages'],
} as const;

/** One row of the table. */
export function call<
  const Name extends string,
  const Params extends readonly Param[],
  const O extends Options = object,
>(name: Name, params: Params, summary: string, errnos: Call['errnos'] = {}, options?: O) {
  const givesBytes = params.some(({ kind }) => kind === 'out' || kind === 'arg');
  const gives = givesBytes ? 'bytes' : 'nothing';
  const row = { ...usual, gives, ...options };
  return { name, params, summary, errnos, ...row } as Omit<Call, 'name' | 'params' | 'result' | 'mode'> & {
    readonly name: Name;
    readonly params: Params;
    readonly result: Chosen<O, 'result', 'i32'>;
    readonly mode: Chosen<O, 'mode', 'local'>;
  };
}
