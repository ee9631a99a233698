import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createMcpHandler, McpServer as ModernServer } from '@modelcontextprotocol/server';
// @ts-expect-error it has no types of its own
import { Provider } from 'oidc-provider';
import { onTestFinished } from 'vitest';
import { serverEra } from '../../../../support/server-era.ts';

export const CLIENT_SECRET = 'canary-client-secret-0123456789';
const ADMIN_SCOPE = 'tools.admin';
const USER = 'alice';

/** A token that the authorization server knows. */
interface KnownToken {
  readonly jti: string;
  readonly isExpired: boolean;
  readonly aud: string | readonly string[];
  readonly scope?: string;
  destroy(): Promise<void>;
}

export interface ProtectedServerOptions {
  readonly accessTokenSeconds?: number;
  /** Which authorization server the MCP server names, instead of its own. */
  readonly namedIssuer?: string;
  /** The resource in the metadata of the MCP server, instead of its own address. */
  readonly namedResource?: string;
  /** Whether it speaks the old HTTP+SSE transport. */
  readonly sse?: boolean;
}

export interface ProtectedServer {
  readonly url: string;
  readonly issuer: string;
  readonly privateKey: string;
  /** Paths that the authorization server was asked for, with the grant of token requests. */
  readonly asked: string[];
  /** Methods that the MCP server received with a valid token. */
  readonly served: string[];
  /** Every token that the MCP server was sent. */
  readonly tokens: ReadonlySet<string>;
  /** Number of 401 responses. */
  readonly refused: number;
  /** Revokes all access tokens. */
  revokeAccess(): Promise<void>;
  /** Revokes all refresh tokens. */
  revokeGrants(): Promise<void>;
}

/** A real authorization server (oidc-provider), and a real MCP server (of the SDK) that requires its tokens. */
export async function startProtectedServer(options: ProtectedServerOptions = {}): Promise<ProtectedServer> {
  const authorization = await listening();
  const resource = await listening();
  const issuer = `http://127.0.0.1:${portOf(authorization)}`;
  const url = `http://127.0.0.1:${portOf(resource)}/mcp`;
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const asked: string[] = [];
  const served: string[] = [];
  const tokens = new Set<string>();
  const sessions = new Map<string, SSEServerTransport>();
  const grants = new Set<string>();
  let refused = 0;
  const provider = makeProvider(issuer, url, publicKey, options.accessTokenSeconds ?? 3_600);
  provider.on('grant.saved', (grant: { jti: string }) => grants.add(grant.jti));
  const find = async (token: string): Promise<KnownToken | undefined> =>
    (await provider.AccessToken.find(token)) ?? (await provider.ClientCredentials.find(token));

  authorization.on('request', (request: IncomingMessage, response: ServerResponse) => {
    asked.push(new URL(request.url ?? '', issuer).pathname);
    if (request.url?.startsWith('/interaction/')) void consent(provider, request, response, url);
    else provider.callback()(request, response);
  });
  provider.on('grant.success', (ctx: { oidc: { params: { grant_type: string } } }) =>
    asked.push(ctx.oidc.params.grant_type),
  );

  const metadata = `${url.replace('/mcp', '')}/.well-known/oauth-protected-resource/mcp`;
  resource.on('request', async (request: IncomingMessage, response: ServerResponse) => {
    if (request.url?.startsWith('/.well-known/')) {
      response.writeHead(200, { 'content-type': 'application/json' });
      const named = { resource: options.namedResource ?? url, authorization_servers: [options.namedIssuer ?? issuer] };
      response.end(JSON.stringify(named));
      return;
    }
    const body = await textOf(request);
    const bearer = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
    if (bearer !== '') tokens.add(bearer);
    const token = bearer === '' ? undefined : await find(bearer);
    if (token === undefined || token.isExpired || ![token.aud].flat().includes(url)) {
      refused += 1;
      const challenge = `Bearer error="invalid_token", scope="tools.read", resource_metadata="${metadata}"`;
      response.writeHead(401, { 'www-authenticate': challenge }).end();
      return;
    }
    const message = body === '' ? {} : JSON.parse(body);
    if (message.params?.name === 'admin' && !(token.scope ?? '').split(' ').includes(ADMIN_SCOPE)) {
      const challenge = `Bearer error="insufficient_scope", scope="${ADMIN_SCOPE}", resource_metadata="${metadata}"`;
      response.writeHead(403, { 'www-authenticate': challenge }).end();
      return;
    }
    served.push(message.method ?? request.method);
    if (options.sse === true) await serveSse(sessions, request, response, message);
    else await serveMcp(request, response, message);
  });

  return {
    url,
    issuer,
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    asked,
    served,
    tokens,
    get refused() {
      return refused;
    },
    revokeAccess: async () => {
      for (const token of tokens) await (await find(token))?.destroy();
    },
    revokeGrants: async () => {
      for (const token of tokens) await (await find(token))?.destroy();
      for (const id of grants) await provider.RefreshToken.revokeByGrantId(id);
      for (const id of grants) await (await provider.Grant.find(id))?.destroy();
    },
  };
}

/** The browser of a user who consents to everything: follows redirects and stores cookies. */
export async function consentInBrowser(address: URL): Promise<void> {
  const cookies = new Map<string, string>();
  let at = address;
  for (let hops = 0; hops < 20; hops++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(at, { redirect: 'manual', headers: { cookie } });
    await response.arrayBuffer();
    for (const each of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(each) ?? [];
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    if (location === null) return;
    at = new URL(location, at);
  }
}

function makeProvider(issuer: string, resource: string, publicKey: KeyObject, accessTokenSeconds: number) {
  const machine = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [] };
  return new Provider(issuer, {
    clients: [
      { client_id: 'by-secret', client_secret: CLIENT_SECRET, ...machine },
      {
        client_id: 'by-post',
        client_secret: CLIENT_SECRET,
        token_endpoint_auth_method: 'client_secret_post',
        ...machine,
      },
      {
        client_id: 'by-key',
        token_endpoint_auth_method: 'private_key_jwt',
        token_endpoint_auth_signing_alg: 'ES256',
        jwks: { keys: [publicKey.export({ format: 'jwk' })] },
        ...machine,
      },
    ],
    cookies: { keys: ['of a test'] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_ctx: unknown, asked: string) => {
          if (asked !== resource) throw new Error('another resource');
          return {
            scope: `tools.read ${ADMIN_SCOPE}`,
            audience: resource,
            accessTokenTTL: accessTokenSeconds,
            accessTokenFormat: 'opaque',
          };
        },
      },
    },
    ttl: { Grant: 3_600, Session: 3_600, Interaction: 600, RefreshToken: 3_600 },
    interactions: { url: (_ctx: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    issueRefreshToken: async (_ctx: unknown, client: { grantTypeAllowed(grant: string): boolean }) =>
      client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    findAccount: (_ctx: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
  });
}

async function consent(provider: Provider, request: IncomingMessage, response: ServerResponse, resource: string) {
  const { params } = await provider.interactionDetails(request, response);
  const grant = new provider.Grant({ accountId: USER, clientId: params.client_id });
  grant.addOIDCScope('openid offline_access');
  grant.addResourceScope(resource, params.scope ?? '');
  const result = { login: { accountId: USER }, consent: { grantId: await grant.save() } };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

async function serveMcp(request: IncomingMessage, response: ServerResponse, message: unknown): Promise<void> {
  if (serverEra() === 'modern') return serveModern(request, response, message);
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
  await makeServer().connect(transport as Parameters<McpServer['connect']>[0]);
  await transport.handleRequest(request, response, message);
}

async function serveModern(request: IncomingMessage, response: ServerResponse, message: unknown): Promise<void> {
  const headers = new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
  const asked = new Request(`http://${request.headers.host}/mcp`, {
    method: 'POST',
    headers,
    body: JSON.stringify(message),
  });
  const answered = await createMcpHandler(makeModernServer, { legacy: 'reject' }).fetch(asked);
  response.writeHead(answered.status, Object.fromEntries(answered.headers)).end(await answered.text());
}

async function serveSse(
  sessions: Map<string, SSEServerTransport>,
  request: IncomingMessage,
  response: ServerResponse,
  message: unknown,
): Promise<void> {
  const session = new URL(request.url ?? '', 'http://localhost').searchParams.get('sessionId');
  if (session !== null) {
    await sessions.get(session)?.handlePostMessage(request, response, message);
    return;
  }
  const transport = new SSEServerTransport('/mcp', response);
  sessions.set(transport.sessionId, transport);
  await makeServer().connect(transport);
}

function makeServer(): McpServer {
  const server = new McpServer({ name: 'protected', version: '1.0.0' });
  const say = (text: string) => ({ content: [{ type: 'text' as const, text }] });
  server.registerTool('hello', {}, () => say('hello'));
  server.registerTool('admin', {}, () => say('done'));
  server.registerTool('whoami', {}, (extra) => say(String(extra.requestInfo?.headers.authorization)));
  return server;
}

function makeModernServer(): ModernServer {
  const server = new ModernServer({ name: 'protected', version: '1.0.0' }, { capabilities: { tools: {} } });
  const say = (text: string) => ({ content: [{ type: 'text' as const, text }] });
  server.registerTool('hello', {}, () => say('hello'));
  server.registerTool('admin', {}, () => say('done'));
  server.registerTool('whoami', {}, (ctx) => say(String(ctx.http?.req?.headers.get('authorization'))));
  return server;
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
}

async function listening(): Promise<Server> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return server;
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}
