import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
// @ts-expect-error it has no types of its own
import { Provider } from 'oidc-provider';

// A real OpenID Connect issuer in its own process. Every browser is the user that /as/NAME named last, and consents. The
// first line on stdout is the address.

const users: Readonly<Record<string, object>> = {
  alice: { groups: ['spear-admins', 'everybody'], team: '*' },
  bob: { groups: ['sre'], team: 'team-a' },
  carol: { groups: ['everybody'], team: 'team-b' },
  dave: { groups: ['sre'] },
};
const CLIENT_SECRET = 'canary-oidc-secret-0123456789';
const resource = 'https://spear.test/api';
let user = 'alice';

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const native = { application_type: 'native', redirect_uris: ['http://127.0.0.1/auth/callback'] };
  const provider = new Provider(issuer, {
    clients: [
      { client_id: 'spear', token_endpoint_auth_method: 'none', ...native },
      { client_id: 'spear-with-secret', client_secret: CLIENT_SECRET, ...native },
      {
        client_id: 'machine',
        client_secret: CLIENT_SECRET,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    claims: { openid: ['sub', 'groups', 'team'], profile: ['name'] },
    conformIdTokenClaims: false,
    cookies: { keys: ['of a test'] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({ scope: 'runs', audience: resource, accessTokenFormat: 'jwt' }),
      },
    },
    extraTokenClaims: () => ({ groups: ['sre'], team: 'team-a' }),
    ttl: { Grant: 600, Session: 600, Interaction: 600 },
    interactions: { url: (_ctx: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    findAccount: (_ctx: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id, ...users[id] }) }),
  });
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const named = /^\/as\/(\w+)$/.exec(request.url ?? '')?.[1];
    if (named !== undefined) {
      user = named;
      response.end();
    } else if (request.url?.startsWith('/interaction/')) void consent(provider, request, response);
    else provider.callback()(request, response);
  });
  process.stdout.write(`${issuer}\n`);
});

async function consent(provider: Provider, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { params } = await provider.interactionDetails(request, response);
  const refused = { error: 'access_denied', error_description: '<script>alert(1)</script>' };
  const grant = new provider.Grant({ accountId: user, clientId: params.client_id });
  grant.addOIDCScope('openid profile');
  const result =
    user === 'mallory' ? refused : { login: { accountId: user }, consent: { grantId: await grant.save() } };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}
