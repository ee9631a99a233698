import type { ConnectRouter } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Health } from '../../../src/generated/proto/grpc/health/v1/health_pb.ts';
import { type GrpcListenerOptions, grpcListener } from '../../../src/registry/grpc/grpc-listener.ts';
import { methodNeeds } from '../../../src/registry/grpc/services.ts';
import { type Need, refusal } from '../../../src/server/identity/identity.ts';
import { type Identity, type Role, roles } from '../../../src/server/records/permissions.ts';
import { fsRecord, startTestSms, stopAll, type TestSms } from '../../registry/running-sms.ts';
import { callMethod, rawGrpc } from './raw-grpc.ts';
import { createToken, tokensPath } from './token-calls.ts';

// Every route of the router and every method of the services, called with each role.

/** A user with one role, of all namespaces or of one, and a token. */
interface Person {
  readonly identity: Identity;
  readonly token: string;
}

const [UNAUTHENTICATED, PERMISSION_DENIED] = [16, 7];
let sms: TestSms;
const people: Person[] = [];

beforeAll(async () => {
  sms = await startTestSms();
  for (const role of roles) for (const namespace of ['*', 'team-a']) people.push(await personOf(role, namespace));
  await sms.http('POST', '/admin/api/mcp/servers', { json: fsRecord });
});
afterAll(stopAll);

async function personOf(role: Role, namespace: string): Promise<Person> {
  const name = `${role}-${namespace === '*' ? 'of-all' : namespace}`;
  const token = await createToken(sms, { name, roles: [role], namespace });
  return { token, identity: { name, roles: [role], namespace, mayReadJournals: false, expiresAtMs: null } };
}

const personCalled = (name: string) => {
  const found = people.find(({ identity }) => identity.name === name);
  if (found === undefined) throw new Error(`there is no ${name}`);
  return found;
};

/** The problem kind of a response; `let in`: not an authorization problem. */
async function onRoute({ method, path }: { method: string; path: string }, headers: Record<string, string>) {
  const hasBody = method === 'POST' || method === 'PUT';
  const answer = await fetch(`${sms.sms.http}${path.replaceAll(/\{\w+\}/g, 'no-such-thing')}`, {
    method,
    headers: { ...headers, ...(hasBody ? { 'content-type': 'application/json' } : {}) },
    ...(hasBody ? { body: '{}' } : {}),
  });
  const kind = answer.headers.get('content-type') === 'application/problem+json' ? await answer.json() : {};
  await answer.body?.cancel().catch(() => {});
  const type = String((kind as { type?: unknown }).type ?? '');
  return /not-permitted|unauthorized/.exec(type)?.[0] ?? 'let in';
}

async function whatIsThere() {
  const paths = ['/admin/api/mcp/servers', '/admin/api/mcp/profiles', tokensPath];
  const answers = await Promise.all(paths.map((path) => sms.http('GET', path)));
  return answers.map(({ body: { revision } }) => revision);
}

describe('the matrix of roles', () => {
  it('allows each role exactly the routes whose needs it meets [people.roles]', async () => {
    const wrong: unknown[] = [];
    for (const route of sms.sms.routes) {
      for (const { identity, token } of people) {
        const outcome = await onRoute(route, { authorization: `Bearer ${token}` });
        const expected = refusal(identity, route) === null ? 'let in' : 'not-permitted';
        if (outcome !== expected) wrong.push([identity.name, route.method, route.path, outcome]);
      }
      const expected = route.needs === 'anybody' ? 'let in' : 'unauthorized';
      for (const headers of [{}, { authorization: 'Bearer spr_0000000000000000000000' }]) {
        if ((await onRoute(route, headers)) !== expected) wrong.push(['unauthenticated', route.method, route.path]);
      }
    }
    expect(wrong).toEqual([]);
    expect(sms.sms.routes.length).toBeGreaterThan(20);
  });

  it('allows each role exactly the gRPC methods whose needs it meets [people.roles]', async () => {
    const session = rawGrpc(sms.sms.grpc);
    const wrong: unknown[] = [];
    const check = async (method: string, need: Need, who: Identity | null, headers: Record<string, string>) => {
      const outcome = await callMethod(session, method, headers);
      const denied = outcome === PERMISSION_DENIED || outcome === UNAUTHENTICATED;
      const may = who === null ? need.needs === 'anybody' : refusal(who, need) === null;
      if (denied === may) wrong.push([who?.name, method, outcome]);
    };
    for (const [method, need] of methodNeeds) {
      for (const { identity, token } of people)
        await check(method, need, identity, { authorization: `Bearer ${token}` });
      await check(method, need, null, {});
    }
    expect(wrong).toEqual([]);
  });

  it.each(['viewer-of-all', 'viewer-team-a', 'submitter-of-all', 'approver-of-all', 'node-of-all', 'node-team-a'])(
    '%s changes nothing in the registry, by no route and no method [people.viewer]',
    async (name) => {
      const before = await whatIsThere();
      const authorization = `Bearer ${personCalled(name).token}`;
      const decides = (path: string) => name === 'approver-of-all' && path === '/admin/api/approvals/{id}/decision';
      // Runs are not of the registry, but of its queue.
      const submits = (path: string) => name === 'submitter-of-all' && path.startsWith('/v1/namespaces/');
      for (const route of sms.sms.routes.filter(
        ({ method, path, isQuestion }) =>
          method !== 'GET' && !isQuestion && !path.startsWith('/auth/') && !decides(path) && !submits(path),
      )) {
        // Written out here, not taken from the route.
        expect([route.method, route.path, await onRoute(route, { authorization })]).toEqual([
          route.method,
          route.path,
          'not-permitted',
        ]);
      }
      const session = rawGrpc(sms.sms.grpc);
      for (const method of methodNeeds.keys()) {
        if (!/\/(?:Upsert|Delete|Create|Put|Set|Register|Unregister)/.test(method)) continue;
        expect([method, await callMethod(session, method, { authorization })]).toEqual([method, PERMISSION_DENIED]);
      }
      expect(await whatIsThere()).toEqual(before);
    },
  );

  it('authorizes HEAD like GET, and rejects other HTTP methods', async () => {
    const { token } = personCalled('viewer-of-all');
    const head = await fetch(`${sms.sms.http}/admin/api/mcp/servers`, {
      method: 'HEAD',
      headers: { authorization: `Bearer ${token}` },
    });
    expect(head.status).toBe(200);
    for (const method of ['PATCH', 'OPTIONS', 'PROPFIND']) {
      const { status } = await sms.http(method, `/admin/api/mcp/servers/fs`, { token });
      expect(status).toBe(405);
    }
    const override = { 'x-http-method-override': 'DELETE', 'x-http-method': 'DELETE' };
    expect((await sms.http('GET', '/admin/api/mcp/servers/fs', { token, headers: override })).status).toBe(200);
  });
});

it('every route and method declares its needs, and changes need more than view', () => {
  const { routes } = sms.sms;
  const open = routes.filter(({ needs }) => needs === 'anybody').map(({ method, path }) => `${method} ${path}`);
  const logins = [
    'GET /auth/options',
    'GET /auth/login',
    'GET /auth/callback',
    'POST /auth/exchange',
    'POST /auth/logout',
  ];
  const page = ['GET /', 'GET /console', 'GET /console/', 'GET /console/{id}'];
  expect(open).toEqual([...logins, 'GET /healthz', 'GET /readyz', 'GET /metrics', ...page, 'GET /openapi.json']);
  for (const { method, needs, path, isQuestion } of routes) {
    if (method !== 'GET' && !isQuestion) expect([path, needs === 'view' || needs === 'follow']).toEqual([path, false]);
  }
  const questions = routes.filter(({ isQuestion }) => isQuestion).map(({ method, path }) => `${method} ${path}`);
  expect(questions).toEqual(['POST /admin/api/mcp/servers/check', 'POST /admin/api/mcp/access']);
  for (const [method, { needs, changes }] of methodNeeds) {
    expect([method, changes]).toEqual([method, !['anybody', 'follow', 'report', 'identify'].includes(needs)]);
  }
});

it('a method without declared needs cannot be served', () => {
  const router = (served: ConnectRouter) => served.service(Health, {});
  const options = { routes: router, needs: new Map() } as unknown as GrpcListenerOptions;
  expect(() => grpcListener(options)).toThrow('no permission declared for method grpc.health.v1.Health/Check');
});
