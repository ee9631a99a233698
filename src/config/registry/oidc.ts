import { z } from 'zod';
import { ALL_NAMESPACES, type ClaimsReading, isNamespace, roles } from '../../server/records/permissions.ts';
import type { Secret } from '../../server/secrets/secret.ts';
import { readSecretFile } from '../../server/secrets/secret-file.ts';
import { isSecureUrl } from '../address.ts';
import { ConfigError } from '../config-error.ts';
import { schemaKit, strictTable } from '../document.ts';
import { readSecret } from '../secret-reference.ts';

const { nonEmpty: text } = schemaKit;
const HOUR_MS = 3_600_000;
const DEFAULT_SESSION_MS = 8 * HOUR_MS;

/** `[oidc]`: login of users with an OpenID provider. */
export const oidcTable = strictTable({
  issuer: text,
  client_id: text,
  client_secret: schemaKit.secretReference.optional(),
  audiences: z.array(text).min(1).optional(),
  scopes: z.array(text).optional(),
  name_claim: text.optional(),
  roles_claim: text,
  roles: z.record(text, z.array(z.enum(roles)).min(1)),
  journal_values: z.array(text).optional(),
  namespace: text.refine((name) => name === ALL_NAMESPACES || isNamespace(name), 'must be * or a namespace').optional(),
  namespace_claim: text.optional(),
  public_url: text.optional(),
  session_ms: z
    .int()
    .min(60_000)
    .max(7 * 24 * HOUR_MS)
    .optional(),
});

export interface OidcConfig extends ClaimsReading {
  readonly clientId: string;
  /** Read at every login; null: a public client. */
  readonly clientSecret: (() => Secret) | null;
  readonly scopes: readonly string[];
  /** Origin of this registry for browsers; null: the host of the request. */
  readonly publicUrl: string | null;
  readonly sessionMs: number;
}

export function compileOidc(table: z.infer<typeof oidcTable> | undefined, env: NodeJS.ProcessEnv): OidcConfig | null {
  if (table === undefined) return null;
  if ((table.namespace === undefined) === (table.namespace_claim === undefined)) {
    throw new ConfigError(
      'oidc: namespace or namespace_claim must assign users to a namespace; set exactly one of them',
    );
  }
  const { client_secret: secret } = table;
  return Object.freeze({
    issuer: webAddress('oidc.issuer', table.issuer),
    clientId: table.client_id,
    clientSecret:
      secret === undefined ? null : () => readSecret(secret, 'oidc.client_secret', { env, readFile: readSecretFile }),
    audiences: table.audiences ?? [table.client_id],
    scopes: [...new Set(['openid', ...(table.scopes ?? ['profile'])])],
    nameClaim: table.name_claim ?? 'sub',
    rolesClaim: table.roles_claim,
    roles: new Map(Object.entries(table.roles)),
    journalValues: table.journal_values ?? [],
    namespace: table.namespace ?? null,
    namespaceClaim: table.namespace_claim ?? null,
    publicUrl: table.public_url === undefined ? null : new URL(webAddress('oidc.public_url', table.public_url)).origin,
    sessionMs: table.session_ms ?? DEFAULT_SESSION_MS,
  });
}

/** Rejects unencrypted addresses: a proxy on the path could impersonate the issuer. */
function webAddress(field: string, value: string): string {
  const url = URL.parse(value);
  if (url !== null && isSecureUrl(url) && url.username === '' && url.search === '') return value;
  throw new ConfigError(`${field}: expected an https url, or http on loopback, without a user or query`);
}
