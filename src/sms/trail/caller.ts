import { AsyncLocalStorage } from 'node:async_hooks';
import type { AuditCaller } from '../../audit/event.ts';
import type { Access } from '../access.ts';

/** What a request is known by, over either protocol. */
export interface SeenRequest {
  readonly socket: { readonly remoteAddress?: string | undefined } | undefined;
  readonly headers: { readonly authorization?: string | undefined };
}

const callers = new AsyncLocalStorage<AuditCaller>();
const thisProcess: AuditCaller = { actor: null, role: null, peer: null, via: 'process', method: 'none' };

/** Whatever is done meanwhile is done for them. */
export function asCaller<Result>(caller: AuditCaller, work: () => Result): Result {
  return callers.run(caller, work);
}

/** For whom the registry is at work; the process itself where nobody asked. */
export function currentCaller(): AuditCaller {
  return callers.getStore() ?? thisProcess;
}

/** Somebody who has not been asked for a token, or brought none of ours. */
export function stranger({ socket }: SeenRequest, via: 'http' | 'grpc', method: string): AuditCaller {
  return { actor: null, role: null, peer: socket?.remoteAddress ?? null, via, method };
}

/** The same with what their token is for. */
export function callerOf(request: SeenRequest, via: 'http' | 'grpc', method: string, access: Access): AuditCaller {
  const { authorization } = request.headers;
  const role = (['admin', 'node'] as const).find((needed) => access.decide(authorization, needed) === 'granted');
  return { ...stranger(request, via, method), role: role ?? null };
}
