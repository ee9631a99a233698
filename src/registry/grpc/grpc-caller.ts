import { type ContextValues, createContextKey } from '@connectrpc/connect';
import type { AuthFailure } from '../../server/identity/access.ts';
import type { Caller } from '../../server/identity/caller.ts';
import type { Identity } from '../../server/identity/identity.ts';

/** Identity of the caller; a `AuthFailure` only in methods that need no authentication. */
export const grpcIdentity = createContextKey<Identity | AuthFailure>('missing', { description: 'identity' });

/** The caller as functions that decide take it, and as the audit log has it. Set by the listener. */
export const grpcCaller = createContextKey<Caller | null>(null, { description: 'caller' });

export function callerOf(values: ContextValues): Caller {
  const caller = values.get(grpcCaller);
  if (caller === null) throw new Error('the listener did not set the caller');
  return caller;
}

/** For methods that are not for anybody. */
export function identityOf(values: ContextValues): Identity {
  const who = values.get(grpcIdentity);
  if (typeof who === 'string') throw new Error('a method without authentication needs the identity of the caller');
  return who;
}
