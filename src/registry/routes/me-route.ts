import { jsonReply } from '../../server/http/http-reply.ts';
import { identityOf } from '../../server/http/route.ts';
import { permissionsOf } from '../../server/identity/identity.ts';
import type { NamedTokens } from '../../server/identity/named-tokens.ts';
import type { Route } from './http-listener.ts';

/** How long a rotation by another user is reported. */
const ROTATION_NOTICE_MS = 30 * 24 * 3_600_000;

/** `GET /me` tells somebody who they are here, and what they may. */
export const meRoute = (named: Pick<NamedTokens, 'rotatedBy'>): Route => ({
  method: 'GET',
  path: '/admin/api/me',
  needs: 'view',
  async run(call) {
    const identity = identityOf(call);
    const { name, roles, namespace, mayReadJournals, expiresAtMs } = identity;
    const rotated = named.rotatedBy(name);
    return jsonReply(200, {
      name,
      roles,
      namespace,
      may: permissionsOf(identity),
      read_journals: mayReadJournals,
      expires_at_ms: expiresAtMs,
      rotated_by: rotated && Date.now() - rotated.at_ms < ROTATION_NOTICE_MS ? rotated : null,
    });
  },
});
