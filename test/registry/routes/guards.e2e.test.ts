import { request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { hostProblem, originProblem } from '../../../src/server/http/origin-check.ts';
import { fsRecord, startTestSms, stopAll, type TestSms } from '../running-sms.ts';

afterEach(stopAll);

const servers = '/admin/api/mcp/servers';

describe('who may call', () => {
  // Every route by everybody: people/matrix.test.ts.
  const paths: readonly (readonly [string, string, 'admin' | 'node'])[] = [
    ['PUT', `${servers}/fs`, 'admin'],
    ['GET', '/admin/api/mcp/events', 'admin'],
    ['GET', '/api/v1/mcp/servers', 'node'],
  ];

  it.each(paths)('%s %s needs the token of the %s [sms.auth.roles]', async (method, path, needs) => {
    const sms = await startTestSms();
    for (const token of [null, 'wrong-token-wrong-token']) {
      const { status, headers, text } = await sms.http(method, path, {
        token,
        ...(method === 'PUT' ? { json: {} } : {}),
      });
      expect(status).toBe(401);
      expect(headers.get('www-authenticate')).toMatch(/^Bearer /);
      expect(text).not.toContain(sms.adminToken);
    }
    const { status } = await sms.http(method, path, { token: sms.nodeToken });
    if (needs === 'admin') expect(status).toBe(403);
    else expect([200, 404]).toContain(status);
  });

  it.each(['/healthz', '/readyz', '/metrics'])('%s is for everybody', async (path) => {
    const sms = await startTestSms();
    expect((await sms.http('GET', path, { token: null })).status).toBe(200);
  });

  it('everybody on this machine, where auth was switched off', async () => {
    const sms = await startTestSms({ auth: false });
    expect((await sms.http('POST', servers, { json: fsRecord, token: null })).status).toBe(201);
  });
});

/** With headers that fetch does not let a program set. */
function raw(sms: TestSms, path: string, headers: Record<string, string>, method = 'GET'): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = request(`${sms.sms.http}${path}`, { method, headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    call.on('error', reject);
    call.end();
  });
}

describe('a web page', () => {
  it('that made its own name lead here is refused by Host', async () => {
    const sms = await startTestSms({ auth: false });
    expect(await raw(sms, servers, { host: 'evil.example' })).toBe(421);
    expect(await raw(sms, '/metrics', { host: 'evil.example:8080' })).toBe(421);
    expect(await raw(sms, servers, { host: 'localhost:1' })).toBe(200);
  });

  it('of another origin is refused by Origin, its own is not [sms.http.origin]', async () => {
    const sms = await startTestSms({ auth: false, allowedOrigins: ['https://console.example'] });
    const host = new URL(sms.sms.http).host;
    expect(await raw(sms, servers, { origin: 'https://evil.example' })).toBe(403);
    expect(await raw(sms, '/admin/api/mcp/reload', { origin: 'null' }, 'POST')).toBe(403);
    expect(await raw(sms, servers, { origin: `http://${host}` })).toBe(200);
    expect(await raw(sms, servers, { origin: 'https://console.example' })).toBe(200);
  });

  it('of a listed origin may call and read, and its browser is told so [sms.http.origin]', async () => {
    const origin = 'https://console.example';
    const sms = await startTestSms({ allowedOrigins: [origin] });
    const preflight = {
      origin,
      'access-control-request-method': 'PUT',
      'access-control-request-headers': 'authorization',
    };
    const asked = await sms.http('OPTIONS', `${servers}/fs`, { token: null, headers: preflight });
    expect(asked.status).toBe(204);
    expect(Object.fromEntries(asked.headers)).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-methods': expect.stringContaining('PUT'),
      'access-control-allow-headers': expect.stringMatching(/authorization.*if-match/),
      vary: 'origin',
    });
    const made = await sms.http('POST', servers, { json: fsRecord, headers: { origin } });
    const refused = await sms.http('GET', servers, { token: null, headers: { origin } });
    expect([made.status, refused.status]).toEqual([201, 401]);
    for (const { headers } of [made, refused]) {
      expect(headers.get('access-control-allow-origin')).toBe(origin);
      expect(headers.get('access-control-expose-headers')).toContain('etag');
    }
    const evil = { ...preflight, origin: 'https://evil.example' };
    const other = await sms.http('OPTIONS', servers, { token: null, headers: evil });
    expect([other.status, other.headers.get('access-control-allow-origin')]).toEqual([403, null]);
    const plain = await sms.http('GET', servers);
    expect([plain.headers.get('access-control-allow-origin'), plain.headers.get('vary')]).toEqual([null, 'origin']);
    const ended = new AbortController();
    const events = await fetch(`${sms.sms.http}/admin/api/mcp/events`, {
      headers: { origin, authorization: `Bearer ${sms.adminToken}` },
      signal: ended.signal,
    });
    expect(events.headers.get('access-control-allow-origin')).toBe(origin);
    ended.abort();
  });

  it('cannot send a record as a form or as text', async () => {
    const sms = await startTestSms({ auth: false });
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      const { status } = await sms.http('POST', servers, {
        text: JSON.stringify(fsRecord),
        headers: { 'content-type': type },
      });
      expect(status).toBe(415);
    }
    expect((await sms.http('GET', servers)).body).toMatchObject({ revision: 0 });
  });
});

const policy = { scheme: 'http', hosts: ['sms.internal'], origins: ['https://console.example'] } as const;

it.each([
  ['127.0.0.1:8080', true],
  ['[::1]:8080', true],
  ['10.1.2.3', true],
  ['localhost', true],
  ['LOCALHOST:80', true],
  ['sms.internal:8080', true],
  ['SMS.internal', true],
  ['evil.example', false],
  ['localhost.evil.example', false],
  ['sms.internal.evil.example', false],
  ['127.0.0.1.evil.example', false],
  ['a b', false],
  ['', false],
  ['user@localhost', false],
  ['localhost/', false],
])('Host %j is ours: %s', (host, ours) => {
  expect(hostProblem(host, policy) === null).toBe(ours);
});

it.each([
  [undefined, true],
  ['http://localhost:8080', true],
  ['https://console.example', true],
  ['https://localhost:8080', false],
  ['http://localhost:8081', false],
  ['http://localhost', false],
  ['null', false],
  ['https://console.example.evil', false],
])('Origin %j may call http://localhost:8080: %s [sms.http.origin]', (origin, allowed) => {
  expect(originProblem(origin, 'localhost:8080', policy) === null).toBe(allowed);
});

describe('limits', () => {
  it('a body beyond the limit is 413, whether it tells its length or not', async () => {
    const sms = await startTestSms();
    const large = JSON.stringify({ ...fsRecord, padding: 'x'.repeat(300_000) });
    const headers = { 'content-type': 'application/json' };
    expect((await sms.http('POST', servers, { text: large, headers })).status).toBe(413);
    const chunked = await fetch(`${sms.sms.http}${servers}`, {
      method: 'POST',
      body: new Blob([large]).stream(),
      headers: { ...headers, authorization: `Bearer ${sms.adminToken}` },
      duplex: 'half',
    } as RequestInit);
    expect(chunked.status).toBe(413);
    expect((await sms.http('GET', servers)).body).toMatchObject({ revision: 0 });
  });

  it('a record that is too large as a whole is an error that says so', async () => {
    const sms = await startTestSms();
    const args = Array.from({ length: 20 }, () => 'x'.repeat(10_000));
    const { status, body } = await sms.http('POST', servers, { json: { ...fsRecord, stdio: { command: 'x', args } } });
    expect(status).toBe(400);
    expect(body.detail).toMatch(/bytes; the limit is 65536/);
  });

  it('headers beyond the limit are refused, and the server goes on', async () => {
    const sms = await startTestSms();
    expect(await raw(sms, '/healthz', { 'x-long': 'x'.repeat(20_000) })).toBe(431);
    expect((await sms.http('GET', '/healthz')).status).toBe(200);
  });

  it('what is not HTTP at all is refused, and the server goes on', async () => {
    const sms = await startTestSms();
    const { hostname, port } = new URL(sms.sms.http);
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => socket.write('\x16\x03\x01 not http\r\n\r\n'));
      socket.once('data', (data) => resolve(data.toString()));
      socket.once('error', reject);
      socket.once('close', () => resolve(''));
    });
    expect(answer).toMatch(/^HTTP\/1.1 400/);
    expect((await sms.http('GET', '/healthz')).status).toBe(200);
  });
});
