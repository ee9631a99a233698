import type { AuditCaller } from '../audit/event.ts';
import type { Identity } from '../records/permissions.ts';
import { ALL_NAMESPACES } from '../records/permissions.ts';

/** The transport of a request, as far as the audit log needs it. */
export interface RequestPeer {
  readonly socket: { readonly remoteAddress?: string | undefined } | undefined;
}

/**
 * On whose behalf an operation runs: a request, or a job of this process. Every function that decides who may do what, or
 * that changes an audited record, takes the caller as a parameter. There is no default caller.
 */
export type Caller = AuditCaller;

const unauthenticated = { actor: null, role: null, namespace: null };

export const Caller = {
  /** A job of this process, such as `sweep`; the audit log has its name as the method. */
  process(job: string): Caller {
    return { ...unauthenticated, peer: null, via: 'process', method: job };
  },

  /** A request; `identity` is null if the request is not authenticated. */
  request({ socket }: RequestPeer, via: 'http' | 'grpc', method: string, identity: Identity | null): Caller {
    const who =
      identity === null
        ? unauthenticated
        : { actor: identity.name, role: identity.roles.join(','), namespace: identity.namespace };
    return { ...who, peer: socket?.remoteAddress ?? null, via, method };
  },

  /** Whether the caller has access to all namespaces: a job of this process, or an identity that is not limited to one. */
  hasAllNamespaces({ via, namespace }: Caller): boolean {
    return via === 'process' || namespace === ALL_NAMESPACES;
  },
};
