import { errorText } from '../base/errors.ts';
import type { RegistryConfig } from '../config/registry/registry-config.ts';
import { ServedCertificate } from '../server/http/served-certificate.ts';
import { type Access, openAccess, TokenAccess, Validity } from '../server/identity/access.ts';
import { ensureTokens, FileTokens, readTokens } from '../server/identity/file-tokens.ts';
import { NamedTokens } from '../server/identity/named-tokens.ts';
import { type Oidc, openOidc } from '../server/identity/oidc/oidc.ts';
import { Sessions } from '../server/identity/sessions.ts';
import { TokenUses } from '../server/identity/token-uses.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { RegistryDatabase } from '../server/store/store.ts';

/** Whom a registry knows, and the certificate that it shows; `reload` reads the files of both again. */
export interface Credentials {
  readonly access: Access;
  readonly named: NamedTokens;
  readonly uses: TokenUses;
  readonly sessions: Sessions;
  /** Null: nobody logs in. */
  readonly oidc: Oidc | null;
  /** Null: there is no TLS. */
  readonly certificate: ServedCertificate | null;
  /** What cannot be read stays as it was, and the log says so. */
  reload(): void;
  /** Before the store is closed. */
  close(): Promise<void>;
}

export async function openCredentials(
  { auth, files, tls: tlsPaths, oidc: oidcConfig, egress }: RegistryConfig,
  store: Pick<RegistryDatabase, 'tokens' | 'tokenUses'>,
  log: ServiceLog,
): Promise<Credentials> {
  const paths = { admin: files.adminToken, node: files.nodeToken };
  const certificate = tlsPaths === null ? null : new ServedCertificate(tlsPaths, log);
  const validity = new Validity();
  const uses = new TokenUses({ store: store.tokenUses, isToken: (name) => named.has(name), log });
  const named = new NamedTokens(store.tokens, validity, (name) => uses.record(name));
  const sessions = new Sessions(validity);
  const oidc = oidcConfig === null ? null : openOidc(oidcConfig, egress, log);
  let tokens: FileTokens | null = null;
  if (auth) {
    const made = ensureTokens(paths);
    for (const file of made.created) log('info', 'token_created', { file });
    tokens = new FileTokens(made.tokens, validity);
  }
  const logged = oidc === null ? [] : [oidc.tokens];
  await named.open();
  await uses.open();
  const renew = (what: string, work: () => object) => {
    try {
      log('info', `${what}_reloaded`, { ...work() });
    } catch (error) {
      log('error', `${what}_not_reloaded`, { message: errorText(error), kept: true });
    }
  };
  return {
    access: tokens === null ? openAccess : new TokenAccess([tokens, named], logged, sessions, validity),
    named,
    uses,
    sessions,
    oidc,
    certificate,
    reload() {
      renew('tokens', () => {
        const now = tokens === null ? { admin: [], node: [] } : readTokens(paths);
        tokens?.replace(now);
        return { admin: now.admin.length, node: now.node.length };
      });
      if (tlsPaths !== null) {
        renew('certificate', () => {
          certificate?.reload();
          return { file: tlsPaths.cert };
        });
      }
    },
    async close() {
      certificate?.close();
      await uses.close();
      await named.close();
      await oidc?.close();
    },
  };
}
