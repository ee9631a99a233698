import { type Client, Code, ConnectError, createClient, type Transport } from '@connectrpc/connect';
import { isJsonObject, parseJson } from '../base/json.ts';
import { IdentityService } from '../generated/proto/sms/identity_pb.ts';
import { type Identity, isRole } from '../server/records/permissions.ts';
import type { IdentityPort } from './identity-port.ts';

/** An SMS that is asked over the network who somebody is. */
export class RemoteIdentities implements IdentityPort {
  readonly #client: Client<typeof IdentityService>;
  readonly #explain: (error: unknown) => never;

  constructor(transport: Transport, explain: (error: unknown) => never) {
    this.#client = createClient(IdentityService, transport);
    this.#explain = explain;
  }

  async identify(sha256: string, signal: AbortSignal): Promise<Identity | null> {
    const { owner } = await this.#client.identifyToken({ sha256 }, { signal }).catch(this.#explain);
    if (owner === undefined) return null;
    const { name, roles, namespace, readJournals, expiresAtMs } = owner;
    return {
      name,
      // A role that came later lets nobody do anything here.
      roles: roles.filter(isRole),
      namespace,
      mayReadJournals: readJournals,
      expiresAtMs: expiresAtMs === undefined ? null : Number(expiresAtMs),
    };
  }

  async issuer(signed: { readonly alg: string; readonly kid: string | null }, signal: AbortSignal) {
    const { alg, kid } = signed;
    const { issuer: found } = await this.#client
      .describeIssuer({ alg, ...(kid === null ? {} : { kid }) }, { signal })
      .catch((error: unknown) => {
        // A registry of an earlier version tells nodes of no issuer.
        if (error instanceof ConnectError && error.code === Code.Unimplemented) return { issuer: undefined };
        return this.#explain(error);
      });
    if (found === undefined) return null;
    const { issuer, audiences, nameClaim, rolesClaim, roles, journalValues, namespace, namespaceClaim } = found;
    return {
      ...{ issuer, audiences, nameClaim, rolesClaim, journalValues },
      roles: new Map(roles.map(({ value, roles: given }) => [value, given.filter(isRole)])),
      namespace: namespace ?? null,
      namespaceClaim: namespaceClaim ?? null,
      keys: found.keys.map((text) => parseJson(text)).filter(isJsonObject),
      nodeNamespace: found.nodeNamespace,
    };
  }
}
