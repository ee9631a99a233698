import { AsyncLocalStorage } from 'node:async_hooks';
import type { AuditCaller } from '../audit/event.ts';
import type { Identity } from './identity.ts';

/** What a request is known by, over either protocol. */
export interface SeenRequest {
  readonly socket: { readonly remoteAddress?: string | undefined } | undefined;
}

const callers = new AsyncLocalStorage<AuditCaller>();
const nobody = { actor: null, role: null, namespace: null };
const thisProcess: AuditCaller = { ...nobody, peer: null, via: 'process', method: 'none' };

/** Whatever is done meanwhile is done for them. */
export function asCaller<Result>(caller: AuditCaller, work: () => Result): Result {
  return callers.run(caller, work);
}

/** What the registry does because its time has come, whoever is there. */
export function byItself<Result>(work: () => Result): Result {
  return callers.run(thisProcess, work);
}

/** For whom the registry is at work; the process itself where nobody asked. */
export function currentCaller(): AuditCaller {
  return callers.getStore() ?? thisProcess;
}

/** Somebody who asks; `identity` is null where they have not shown who they are. */
export function callerOf(
  { socket }: SeenRequest,
  via: 'http' | 'grpc',
  method: string,
  identity: Identity | null,
): AuditCaller {
  const who =
    identity === null
      ? nobody
      : { actor: identity.name, role: identity.roles.join(','), namespace: identity.namespace };
  return { ...who, peer: socket?.remoteAddress ?? null, via, method };
}
