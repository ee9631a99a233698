import { z } from 'zod';
import type { ClaimsReading } from '../../server/records/issuer.ts';
import { ALL_NAMESPACES, isNamespace, roles } from '../../server/records/permissions.ts';
import {
  isSecretReference,
  resolveSecret,
  SECRET_REFERENCE_HELP,
  type Secret,
  SecretError,
} from '../../server/secrets/secret.ts';
import { readSecretFile } from '../../server/secrets/secret-file.ts';
import { ConfigError } from '../config-error.ts';
import { strictTable } from '../strict-table.ts';
import { isLoopbackHost } from './address.ts';

const text = z.string().min(1);
const HOUR_MS = 3_600_000;
const DEFAULT_SESSION_MS = 8 * HOUR_MS;

/** `[oidc]`: who else may come in, by a login somewhere else. */
export const oidcTable = strictTable({
  issuer: text,
  client_id: text,
  client_secret: text.refine(isSecretReference, SECRET_REFERENCE_HELP).optional(),
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
  /** Read when people are let in; null: a public client. */
  readonly clientSecret: (() => Secret) | null;
  readonly scopes: readonly string[];
  /** Where browsers reach this registry; null: at the host that they name. */
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
    clientSecret: secret === undefined ? null : () => secretOf(secret, env),
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

/** Whoever is on the way could say that they are the issuer. */
function webAddress(field: string, value: string): string {
  const url = URL.parse(value);
  const isLocal = url?.protocol === 'http:' && isLoopbackHost(url.hostname.replace(/^\[|\]$/g, ''));
  if (url !== null && (url.protocol === 'https:' || isLocal) && url.username === '' && url.search === '') return value;
  throw new ConfigError(`${field}: expected an https url, or http on loopback, without a user or query`);
}

function secretOf(reference: string, env: NodeJS.ProcessEnv): Secret {
  try {
    return resolveSecret(reference, { env, readFile: readSecretFile });
  } catch (error) {
    if (error instanceof SecretError) throw new ConfigError(`oidc.client_secret: ${error.message}`);
    throw error;
  }
}
