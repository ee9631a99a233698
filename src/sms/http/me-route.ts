import { permissionsOf } from '../people/identity.ts';
import { identityOf } from './http-call.ts';
import type { Route } from './http-listener.ts';
import { jsonReply } from './http-reply.ts';

/** `GET /me` tells somebody who they are here, and what they may. */
export const meRoute: Route = {
  method: 'GET',
  path: '/admin/api/me',
  needs: 'view',
  async run(call) {
    const identity = identityOf(call);
    const { name, roles, namespace, mayReadJournals, expiresAtMs } = identity;
    return jsonReply(200, {
      name,
      roles,
      namespace,
      may: permissionsOf(identity),
      read_journals: mayReadJournals,
      expires_at_ms: expiresAtMs,
    });
  },
};
