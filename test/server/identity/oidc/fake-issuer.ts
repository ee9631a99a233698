import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onStop } from '../../../registry/running-sms.ts';

export interface FakeKey {
  readonly kid: string;
  readonly alg: 'RS256' | 'ES256' | 'EdDSA';
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

export interface FakeIssuer {
  readonly issuer: string;
  /** What it publishes; may be changed. */
  keys: readonly object[];
  /** Answers to the token endpoint. */
  idToken: (nonce: string) => string;
  readonly asked: string[];
  stop(): Promise<void>;
}

export function makeKey(kid: string, alg: FakeKey['alg'] = 'ES256'): FakeKey {
  const pair =
    alg === 'RS256'
      ? generateKeyPairSync('rsa', { modulusLength: 2048 })
      : alg === 'ES256'
        ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
        : generateKeyPairSync('ed25519');
  return { kid, alg, ...pair };
}

export function published({ kid, publicKey }: FakeKey): object {
  return { ...publicKey.export({ format: 'jwk' }), kid, use: 'sig' };
}

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

export function signed(key: FakeKey, claims: object, header: object = {}): string {
  const text = `${part({ alg: key.alg, kid: key.kid, typ: 'JWT', ...header })}.${part(claims)}`;
  const how = key.alg === 'ES256' ? { key: key.privateKey, dsaEncoding: 'ieee-p1363' as const } : key.privateKey;
  return `${text}.${sign(key.alg === 'EdDSA' ? null : 'sha256', Buffer.from(text), how).toString('base64url')}`;
}

/** An HMAC with the public key as secret, for algorithm confusion attacks. */
export function signedBySecret(secret: string | Buffer, claims: object, header: object): string {
  const text = `${part({ alg: 'HS256', typ: 'JWT', ...header })}.${part(claims)}`;
  return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
}

export function unsigned(claims: object, alg: string, signature = ''): string {
  return `${part({ alg, typ: 'JWT' })}.${part(claims)}.${signature}`;
}

/** An issuer with responses set by the test. */
export async function startFakeIssuer(): Promise<FakeIssuer> {
  const asked: string[] = [];
  const nonces = new Map<string, string>();
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? '', fake.issuer);
    asked.push(url.pathname);
    const json = (value: unknown) => response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
    if (url.pathname === '/.well-known/openid-configuration') {
      const at = (path: string) => `${fake.issuer}${path}`;
      json({
        issuer: fake.issuer,
        jwks_uri: at('/keys'),
        authorization_endpoint: at('/authorize'),
        token_endpoint: at('/token'),
      });
    } else if (url.pathname === '/keys') json({ keys: fake.keys });
    else if (url.pathname === '/authorize') {
      const back = new URL(url.searchParams.get('redirect_uri') ?? '');
      nonces.set('code', url.searchParams.get('nonce') ?? '');
      back.searchParams.set('code', 'code');
      back.searchParams.set('state', url.searchParams.get('state') ?? '');
      response.writeHead(302, { location: back.href }).end();
    } else if (url.pathname === '/token') {
      request.resume();
      await once(request, 'end');
      json({ id_token: fake.idToken(nonces.get('code') ?? ''), token_type: 'Bearer', access_token: 'x' });
    } else response.writeHead(404).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = async () => {
    server.close();
    server.closeAllConnections();
  };
  onStop(stop);
  const fake: FakeIssuer = {
    issuer: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    keys: [],
    idToken: () => '',
    asked,
    stop,
  };
  return fake;
}
