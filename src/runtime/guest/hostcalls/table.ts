import type { CallName, calls, Param, ParamKind } from '../../abi/calls.ts';
import type { Failure } from '../../abi/errno.ts';
import type { GuestState } from './guest-state.ts';

type Row<Name extends CallName> = Extract<(typeof calls)[number], { name: Name }>;

/**
 * Argument of a handler by kind of parameter. A text beyond its limit is `undefined`; bytes are a view of guest memory, valid
 * until the handler returns; an out-buffer is its capacity; the argument of a command is its text, or its capacity.
 */
type Argument<Kind extends ParamKind> = Kind extends 'text'
  ? string | undefined
  : Kind extends 'bytes'
    ? Uint8Array | undefined
    : Kind extends 'arg'
      ? CommandArgument
      : number;

export type CommandArgument = string | number | undefined;

type Arguments<Params extends readonly Param[]> = {
  -readonly [Index in keyof Params]: Argument<Params[Index]['kind']>;
};

/** Bytes for the guest; a string is encoded into its buffer. */
export type Body = Uint8Array | string;

type Returned<R extends Row<CallName>> = R['result'] extends 'i64'
  ? bigint
  : R['result'] extends 'none'
    ? undefined
    : Extract<R['params'][number], { kind: 'out' }> extends never
      ? Extract<R['params'][number], { kind: 'arg' }> extends never
        ? number | Failure
        : number | Body | Failure
      : Body | Failure;

type MaybeLater<R extends Row<CallName>> = R['mode'] extends 'suspending'
  ? Returned<R> | Promise<Returned<R>>
  : Returned<R>;

/** Implementation of a call. It never receives pointers and never returns negative numbers. */
export type Handler<Name extends CallName> = (
  guest: GuestState,
  ...args: Arguments<Row<Name>['params']>
) => MaybeLater<Row<Name>>;

export type HostcallTable = { readonly [Name in CallName]: Handler<Name> };

/** The calls of one family. */
export type Family<Names extends CallName> = Pick<HostcallTable, Names>;
