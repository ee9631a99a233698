import type { CallName, calls, Param, ParamKind } from '../../abi/calls.ts';
import type { Failure } from '../../abi/errno.ts';
import type { GuestState } from './guest-state.ts';

type Row<Name extends CallName> = Extract<(typeof calls)[number], { name: Name }>;

/**
 * What a handler receives for one parameter. A text beyond its limit arrives as `undefined`, not decoded; bytes as a view
 * of the guest's memory, good until the handler returns; an out-buffer as its capacity; the argument of a command as its
 * text, or its capacity if the command gives something back.
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

/** Bytes for the guest: a string is encoded on its way into the buffer. */
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

/** The implementation of a call: it never sees a pointer, and never returns a negative number. */
export type Handler<Name extends CallName> = (
  guest: GuestState,
  ...args: Arguments<Row<Name>['params']>
) => MaybeLater<Row<Name>>;

export type HostcallTable = { readonly [Name in CallName]: Handler<Name> };

/** The part of the table that one family implements. */
export type Family<Names extends CallName> = Pick<HostcallTable, Names>;
