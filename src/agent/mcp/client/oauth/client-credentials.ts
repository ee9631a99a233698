import { createPrivateKey, type KeyObject } from 'node:crypto';
import type { OAuthClientInformationMixed, OAuthClientProvider, OAuthTokens } from '@modelcontextprotocol/client';
import type { McpOAuth } from '../../../../server/records/record.ts';
import type { ClientProof } from '../resolved-record.ts';
import type { McpLibrary } from '../transport/transport.ts';
import type { AuthorizationServer, Discovery } from './authorization-server.ts';
import { OAuthRefused } from './oauth-failure.ts';

/** Who asks the authorization server, and how that is proved. */
export interface OAuthClient {
  readonly information: OAuthClientInformationMixed;
  readonly addClientAuthentication: OAuthClientProvider['addClientAuthentication'];
}

/** The client that a record names. */
export function clientOfRecord(oauth: McpOAuth, proof: ClientProof, library: McpLibrary): OAuthClient | null {
  const { client_id, token_endpoint_auth_method: method } = oauth;
  if (client_id === null) return null;
  const information = {
    client_id,
    ...(proof.secret === null ? {} : { client_secret: proof.secret }),
    ...(method === null ? {} : { token_endpoint_auth_method: method }),
  };
  if (proof.privateKey === null) return { information, addClientAuthentication: undefined };
  const key = readKey(proof.privateKey);
  const addClientAuthentication = library.createPrivateKeyJwtAuth({
    issuer: client_id,
    subject: client_id,
    privateKey: { ...key.export({ format: 'jwk' }) },
    alg: algorithmOf(key),
  });
  return { information, addClientAuthentication };
}

/** A token for the client itself, without anybody's consent. */
export async function clientCredentialsToken(
  client: OAuthClient,
  server: AuthorizationServer,
  scope: string | null,
  { library, fetch }: Discovery,
): Promise<OAuthTokens> {
  const never = () => {
    throw new Error('the client credentials grant has no user interaction');
  };
  const provider: OAuthClientProvider = {
    redirectUrl: undefined,
    clientMetadata: { redirect_uris: [], grant_types: ['client_credentials'] },
    clientInformation: () => client.information,
    tokens: () => undefined,
    saveTokens: never,
    redirectToAuthorization: never,
    saveCodeVerifier: never,
    codeVerifier: never,
    prepareTokenRequest: () =>
      new URLSearchParams({ grant_type: 'client_credentials', ...(scope === null ? {} : { scope }) }),
    ...(client.addClientAuthentication === undefined
      ? {}
      : { addClientAuthentication: client.addClientAuthentication }),
  };
  return library.fetchToken(provider, server.url, {
    ...(server.metadata === null ? {} : { metadata: server.metadata }),
    ...(server.resource === null ? {} : { resource: server.resource }),
    ...(scope === null ? {} : { scope }),
    fetchFn: fetch,
  });
}

function readKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new OAuthRefused('http.oauth.private_key does not refer to a private key in PEM format');
  }
}

const curveAlgorithms: Readonly<Record<string, string>> = {
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512',
};

function algorithmOf(key: KeyObject): string {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'rsa') return 'RS256';
  if (type === 'ed25519') return 'EdDSA';
  const algorithm = curveAlgorithms[details?.namedCurve ?? ''];
  if (algorithm !== undefined) return algorithm;
  throw new OAuthRefused('http.oauth.private_key refers to a key that cannot sign assertions; use RSA, EC or Ed25519');
}
