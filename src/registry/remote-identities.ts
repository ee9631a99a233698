import { type Client, createClient, type Transport } from '@connectrpc/connect';
import { IdentityService } from '../protocol/generated/sms/identity_pb.ts';
import { type Identity, isRole } from '../protocol/people.ts';
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
}
