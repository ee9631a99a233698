import { afterEach, describe, expect, it } from 'vitest';
import { fsRecord, startTestSms, stopAll } from '../running-sms.ts';

afterEach(stopAll);

const servers = '/admin/api/mcp/servers';

describe('POST /servers', () => {
  it('creates a record with its defaults, and says where it is', async () => {
    const sms = await startTestSms();
    const { status, headers, body } = await sms.http('POST', servers, { json: fsRecord });
    expect(status).toBe(201);
    expect(headers.get('location')).toBe(`${servers}/fs`);
    expect(headers.get('etag')).toBe('"1"');
    expect(body).toMatchObject({
      server_id: 'fs',
      display_name: 'fs',
      tool_prefix: 'fs',
      budgets: { connect_timeout_ms: 60_000 },
      mod_revision: 1,
      origin: 'api',
      nodes: [],
      warnings: [],
    });
  });

  it('answers 409 where the server is there already', async () => {
    const sms = await startTestSms();
    await sms.http('POST', servers, { json: fsRecord });
    const { status, headers, body } = await sms.http('POST', servers, { json: { ...fsRecord, display_name: 'x' } });
    expect(status).toBe(409);
    expect(headers.get('content-type')).toBe('application/problem+json');
    expect(body).toEqual({
      type: 'urn:spear:problem:server-exists',
      title: 'Conflict',
      status: 409,
      detail: 'server "fs" already exists',
    });
    expect((await sms.http('GET', `${servers}/fs`)).body.display_name).toBe('fs');
  });

  it('names every wrong field as a problem, and stores nothing [sms.http.problem]', async () => {
    const sms = await startTestSms();
    const json = { ...fsRecord, stdio: { command: '' }, budgets: { tool_timeout_ms: 1 }, allowed_tools: 'all' };
    const { status, headers, body } = await sms.http('POST', servers, { json });
    expect(status).toBe(400);
    expect(headers.get('content-type')).toBe('application/problem+json');
    expect(body).toMatchObject({ type: 'urn:spear:problem:invalid-record', title: 'Bad Request', status: 400 });
    expect((body.errors as { field: string }[]).map(({ field }) => field).sort()).toEqual([
      'allowed_tools',
      'budgets.tool_timeout_ms',
      'stdio.command',
    ]);
    expect((await sms.http('GET', servers)).body).toMatchObject({ revision: 0, servers: [] });
  });

  it('warns of what is probably a mistake, unknown fields included', async () => {
    const sms = await startTestSms();
    const json = { ...fsRecord, allowed_tools: [], alowed_tools: ['*'] };
    const { status, body } = await sms.http('POST', servers, { json });
    expect(status).toBe(201);
    expect((body.warnings as { field: string }[]).map(({ field }) => field)).toEqual(['alowed_tools', 'allowed_tools']);
  });

  it('refuses unknown fields when strict', async () => {
    const sms = await startTestSms({ strict: true });
    const { status, body } = await sms.http('POST', servers, { json: { ...fsRecord, alowed_tools: ['*'] } });
    expect(status).toBe(400);
    expect(body.errors).toEqual([{ field: 'alowed_tools', detail: expect.any(String) }]);
  });
});

describe('PUT /servers/{id}', () => {
  it('creates, replaces, and leaves alone what is the same', async () => {
    const sms = await startTestSms();
    expect(await sms.http('PUT', `${servers}/fs`, { json: fsRecord })).toMatchObject({
      status: 201,
      body: { changed: true, mod_revision: 1 },
    });
    const changed = { ...fsRecord, tags: ['a'] };
    expect(await sms.http('PUT', `${servers}/fs`, { json: changed })).toMatchObject({
      status: 200,
      body: { changed: true, mod_revision: 2, tags: ['a'] },
    });
    expect(await sms.http('PUT', `${servers}/fs`, { json: changed })).toMatchObject({
      status: 200,
      body: { changed: false, mod_revision: 2 },
    });
    // Unlike an upsert of an older client, a PUT says everything: what it leaves out gets its default.
    expect((await sms.http('PUT', `${servers}/fs`, { json: fsRecord })).body).toMatchObject({ tags: [] });
  });

  it('honours If-Match and If-None-Match with 412 [sms.http.if_match]', async () => {
    const sms = await startTestSms();
    const put = (headers: Record<string, string>, display_name: string) =>
      sms.http('PUT', `${servers}/fs`, { json: { ...fsRecord, display_name }, headers });
    expect((await put({ 'if-match': '"1"' }, 'not there')).status).toBe(412);
    expect((await put({ 'if-match': '*' }, 'not there')).status).toBe(412);
    expect((await put({ 'if-none-match': '*' }, 'first')).status).toBe(201);
    expect((await put({ 'if-none-match': '*' }, 'again')).status).toBe(412);
    expect((await put({ 'if-match': '"1"' }, 'second')).status).toBe(200);
    const stale = await put({ 'if-match': '1' }, 'stale');
    expect(stale.status).toBe(412);
    expect(stale.body).toMatchObject({ type: 'urn:spear:problem:revision-mismatch' });
    expect((await put({ 'if-match': '2' }, 'third')).status).toBe(200);
    expect((await put({ 'if-match': 'yesterday' }, 'x')).status).toBe(400);
    expect((await sms.http('GET', `${servers}/fs`)).body.display_name).toBe('third');
    expect((await sms.http('DELETE', `${servers}/fs`, { headers: { 'if-match': '2' } })).status).toBe(412);
    expect((await sms.http('DELETE', `${servers}/fs`, { headers: { 'if-match': '3' } })).status).toBe(200);
  });

  it('refuses a server_id that is not the one of the path', async () => {
    const sms = await startTestSms();
    const { status, body } = await sms.http('PUT', `${servers}/other`, { json: fsRecord });
    expect(status).toBe(400);
    expect(body.errors).toEqual([{ field: 'server_id', detail: 'does not match the path' }]);
  });

  it('takes back what GET gave', async () => {
    const sms = await startTestSms();
    await sms.http('POST', servers, { json: fsRecord });
    const { body } = await sms.http('GET', `${servers}/fs`);
    expect((await sms.http('PUT', `${servers}/fs`, { json: body })).body).toMatchObject({
      changed: false,
      warnings: [],
    });
  });
});

describe('literal env and header values', () => {
  const http = {
    server_id: 'web',
    transport: 'streamable_http',
    http: {
      url: 'https://mcp.example',
      headers: { 'X-Key': 'literal-secret', Authorization: `Bearer \${ENV:MCP_TOKEN}`, 'X-Mixed': `id-\${ENV:MCP_ID}` },
      auth_ref: 'env:MCP_KEY',
    },
  };

  it('come back masked, references as they are', async () => {
    const sms = await startTestSms();
    const created = await sms.http('POST', servers, { json: fsRecord });
    const web = await sms.http('POST', servers, { json: http });
    const listed = await sms.http('GET', servers);
    for (const { text } of [created, web, listed]) expect(text).not.toMatch(/debug|literal-secret|id-/);
    expect((await sms.http('GET', `${servers}/fs`)).body.stdio).toMatchObject({
      env: { LOG: '********', TOKEN: `\${ENV:MCP_TOKEN}` },
    });
    expect((await sms.http('GET', `${servers}/web`)).body.http).toEqual({
      url: 'https://mcp.example',
      headers: {
        'X-Key': '********',
        Authorization: `Bearer \${ENV:MCP_TOKEN}`,
        'X-Mixed': `********\${ENV:MCP_ID}`,
      },
      auth_ref: 'env:MCP_KEY',
      oauth: null,
    });
  });

  it('are kept by a mask that is sent back, and nodes get them as they are [sms.http.mask_kept]', async () => {
    const sms = await startTestSms();
    await sms.http('POST', servers, { json: http });
    const { body } = await sms.http('GET', `${servers}/web`);
    const shown = body.http as { url: string; headers: Record<string, string> };
    const headers = { ...shown.headers, 'X-New': '1' };
    const put = await sms.http('PUT', `${servers}/web`, { json: { ...body, http: { ...shown, headers } } });
    expect(put.status).toBe(200);
    const read = await sms.http('GET', '/api/v1/mcp/servers', { token: sms.nodeToken });
    expect(read.body).toMatchObject({
      revision: 2,
      servers: [{ http: { headers: { ...http.http.headers, 'X-New': '1' } } }],
    });
  });

  it('may have any name, also one that every object has [sms.http.mask_kept]', async () => {
    const sms = await startTestSms();
    for (const name of ['constructor', 'toString', 'hasOwnProperty']) {
      const json = { ...fsRecord, stdio: { command: 'x', env: { [name]: 'value' } } };
      expect((await sms.http('PUT', `${servers}/fs`, { json })).status).toBeLessThan(300);
      const shown = (await sms.http('GET', `${servers}/fs`)).body;
      expect(shown.stdio).toMatchObject({ env: { [name]: '********' } });
      expect((await sms.http('PUT', `${servers}/fs`, { json: shown })).body).toMatchObject({ changed: false });
      const masked = { ...fsRecord, server_id: 'new', stdio: { command: 'x', env: { [name]: '********' } } };
      expect((await sms.http('POST', servers, { json: masked })).status).toBe(400);
    }
  });

  it('are never replaced by a mask that stands for nothing [sms.http.mask_kept]', async () => {
    const sms = await startTestSms();
    await sms.http('POST', servers, { json: fsRecord });
    const env = { LOG: '********', TOKEN: '********', OTHER: 'a ********' };
    const { status, body } = await sms.http('PUT', `${servers}/fs`, {
      json: { ...fsRecord, stdio: { command: 'x', env } },
    });
    expect(status).toBe(400);
    expect((body.errors as { field: string }[]).map(({ field }) => field)).toEqual([
      'stdio.env.TOKEN',
      'stdio.env.OTHER',
    ]);
    const fresh = await sms.http('POST', servers, {
      json: { ...fsRecord, server_id: 'new', stdio: { command: 'x', env } },
    });
    expect(fresh.status).toBe(400);
    expect((await sms.http('GET', servers)).body).toMatchObject({ revision: 1 });
  });
});

describe('what is not there', () => {
  it.each([
    ['GET', `${servers}/nobody`],
    ['DELETE', `${servers}/nobody`],
    ['GET', `${servers}/${encodeURIComponent('../../etc')}`],
    ['GET', '/api/v1/mcp/servers/nobody'],
    ['GET', '/nothing'],
    ['GET', '//nothing'],
  ])('%s %s is 404 as problem JSON', async (method, path) => {
    const sms = await startTestSms();
    const { status, headers } = await sms.http(method, path);
    expect(status).toBe(404);
    expect(headers.get('content-type')).toBe('application/problem+json');
  });

  it('a method that a path does not take is 405 with those that it does', async () => {
    const sms = await startTestSms();
    const { status, headers } = await sms.http('PATCH', `${servers}/fs`);
    expect(status).toBe(405);
    expect(headers.get('allow')?.split(', ').sort()).toEqual(['DELETE', 'GET', 'PUT']);
  });
});

it('gives nodes a list that they need not read again while it is the same', async () => {
  const sms = await startTestSms();
  await sms.http('POST', servers, { json: fsRecord });
  const first = await sms.http('GET', '/api/v1/mcp/servers', { token: sms.nodeToken });
  const headers = { 'if-none-match': first.headers.get('etag') ?? '' };
  expect((await sms.http('GET', '/api/v1/mcp/servers', { token: sms.nodeToken, headers })).status).toBe(304);
  await sms.http('DELETE', `${servers}/fs`);
  expect((await sms.http('GET', '/api/v1/mcp/servers', { token: sms.nodeToken, headers })).status).toBe(200);
  const one = await sms.http('GET', '/api/v1/mcp/servers/fs', { token: sms.nodeToken });
  expect(one.status).toBe(404);
});
