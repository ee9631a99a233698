import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import type { IdentityService } from '../../generated/proto/sms/identity_pb.ts';
import type { Access } from '../../server/identity/access.ts';
import { mayName } from '../../server/identity/identity.ts';
import { IssuerUnavailable } from '../../server/identity/oidc/issuer.ts';
import type { Oidc } from '../../server/identity/oidc/oidc.ts';
import { asJwk, isAlgorithm } from '../../server/identity/oidc/signed-token.ts';
import { ALL_NAMESPACES } from '../../server/records/permissions.ts';
import { identityOf } from './grpc-call.ts';

/** Who somebody is, for nodes. */
export function identityService(access: Access, oidc: Oidc | null): ServiceImpl<typeof IdentityService> {
  return {
    identifyToken({ sha256 }, { values }) {
      if (!/^[0-9a-f]{64}$/.test(sha256)) {
        throw new ConnectError('sha256: expected 64 hex digits, never a token', Code.InvalidArgument);
      }
      const who = access.identifyDigest(Buffer.from(sha256, 'hex'));
      if (typeof who === 'string') return {};
      const node = identityOf(values);
      if (who.namespace !== ALL_NAMESPACES && !mayName(node, who.namespace)) return {};
      const { name, roles, namespace, mayReadJournals: readJournals, expiresAtMs } = who;
      const end = expiresAtMs === null ? {} : { expiresAtMs: BigInt(expiresAtMs) };
      return { owner: { name, roles: [...roles], namespace, readJournals, ...end } };
    },

    async describeIssuer({ alg, kid = null }, { values }) {
      if (oidc === null || !isAlgorithm(alg)) return {};
      const keys = await oidc.issuer.keysFor({ alg, kid }).catch((error: unknown) => {
        if (error instanceof IssuerUnavailable) throw new ConnectError(error.message, Code.Unavailable);
        throw error;
      });
      const { issuer, audiences, nameClaim, rolesClaim, roles, journalValues, namespace, namespaceClaim } = oidc.config;
      return {
        issuer: {
          ...{ issuer, nameClaim, rolesClaim },
          audiences: [...audiences],
          roles: [...roles].map(([value, given]) => ({ value, roles: [...given] })),
          journalValues: [...journalValues],
          ...(namespace === null ? {} : { namespace }),
          ...(namespaceClaim === null ? {} : { namespaceClaim }),
          keys: keys.map((key) => JSON.stringify(asJwk(key))),
          nodeNamespace: identityOf(values).namespace,
        },
      };
    },
  };
}
