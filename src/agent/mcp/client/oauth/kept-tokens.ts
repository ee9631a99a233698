import type { HttpClient } from '../../../../server/egress/http-client.ts';
import type { McpServerRecord } from '../../../../server/records/record.ts';
import { connectionKey } from '../../../../server/records/record-compare.ts';
import type { ResolvedRecord } from '../resolved-record.ts';
import type { HttpTarget, McpLibrary } from '../transport/transport.ts';
import { LoginStore } from './login-store.ts';
import { ServerTokens } from './server-tokens.ts';

interface Kept {
  readonly tokens: ServerTokens;
  readonly madeFrom: string;
}

/** The tokens of all servers, over the connections that are made to them. */
export class KeptTokens {
  readonly #logins: LoginStore;
  readonly #kept = new Map<string, Kept>();

  constructor(loginsDir: string) {
    this.#logins = new LoginStore(loginsDir);
  }

  /** Null: the record asks for none. Another description of the server, or another secret, begins anew. */
  of(
    record: McpServerRecord,
    resolved: ResolvedRecord & { readonly http: HttpTarget },
    library: McpLibrary,
    { fetch }: HttpClient,
  ): ServerTokens | null {
    const { server_id: serverId } = record;
    const oauth = record.http?.oauth ?? null;
    if (oauth === null) return null;
    const { clientProof: proof } = resolved;
    const { url } = resolved.http;
    const madeFrom = JSON.stringify([connectionKey(record), url.href, proof]);
    const kept = this.#kept.get(serverId);
    if (kept?.madeFrom === madeFrom) return kept.tokens;
    const deps = { serverId, url, oauth, proof, library, fetch, logins: this.#logins, wallClock: Date.now };
    const tokens = new ServerTokens(deps);
    this.#kept.set(serverId, { tokens, madeFrom });
    return tokens;
  }

  forget(serverId: string): void {
    this.#kept.delete(serverId);
  }
}
