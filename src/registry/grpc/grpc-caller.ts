import { type ContextValues, createContextKey } from '@connectrpc/connect';
import type { Stranger } from '../../server/identity/access.ts';
import type { Identity } from '../../server/identity/identity.ts';

/** Who calls; somebody unknown only where the method is for anybody. */
export const grpcCaller = createContextKey<Identity | Stranger>('missing', { description: 'caller' });

/** For methods that are not for anybody. */
export function identityOf(values: ContextValues): Identity {
  const who = values.get(grpcCaller);
  if (typeof who === 'string') throw new Error('a method without authentication needs the identity of the caller');
  return who;
}
