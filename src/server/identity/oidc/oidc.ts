import type { CompiledEgress } from '../../../config/egress.ts';
import type { OidcConfig } from '../../../config/registry/oidc.ts';
import { EgressRules, egressOf } from '../../egress/egress.ts';
import { endpointFetch } from '../../egress/endpoint-fetch.ts';
import type { HttpClient } from '../../egress/http-client.ts';
import type { ServiceLog } from '../../log/service-log.ts';
import { Issuer, type IssuerFetch } from './issuer.ts';
import { Logins } from './login.ts';
import { OidcTokens } from './oidc-tokens.ts';

const ISSUER_TIMEOUT_MS = 5_000;

/** Authentication of users by an OpenID Connect issuer: their tokens and their logins. */
export interface Oidc {
  readonly tokens: OidcTokens;
  readonly logins: Logins;
  readonly config: OidcConfig;
  readonly issuer: Issuer;
  close(): Promise<void>;
}

/** Sends no request: a registry starts while its issuer is unreachable. @throws ConfigError for the client secret */
export function openOidc(config: OidcConfig, egress: CompiledEgress, log: ServiceLog): Oidc {
  let client: Promise<HttpClient> | null = null;
  const fetch: IssuerFetch = async (url, init) => {
    client ??= import('../../egress/http-client.ts').then(({ createHttpClient }) =>
      // The operator of the registry names the issuer, so the rules for own records apply.
      createHttpClient(new EgressRules(egressOf(egress, 'user_owned'))),
    );
    const bounded = endpointFetch((await client).fetch, AbortSignal.timeout(ISSUER_TIMEOUT_MS));
    return bounded(url, init);
  };
  const onProblem = (message: string) => log('warn', 'issuer_unavailable', { issuer: config.issuer, message });
  const issuer = new Issuer({ issuer: config.issuer, fetch, onProblem });
  const tokens = new OidcTokens(config, issuer);
  return {
    tokens,
    issuer,
    logins: new Logins({ config, clientSecret: config.clientSecret?.() ?? null, issuer, tokens, fetch }),
    config,
    close: async () => (await client)?.close(),
  };
}
