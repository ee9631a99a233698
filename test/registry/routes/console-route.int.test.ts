import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import type {
  AccessJson,
  AccessServerJson,
  LiveJson,
  RecordCheckJson,
  SummaryJson,
} from '../../../src/registry/console-api.ts';
import { toolListReport } from '../../../src/registry-client/node-report.ts';
import { fsRecord, startTestSms, stopAll, type TestSms } from '../running-sms.ts';

afterEach(stopAll);

describe('the console', () => {
  it('is a page that runs nothing but its own, and files that never change [console.csp]', async () => {
    const { sms } = await startTestSms();
    const first = await fetch(`${sms.http}/`, { redirect: 'manual' });
    expect([first.status, first.headers.get('location')]).toEqual([302, '/console/']);
    const page = await fetch(`${sms.http}/console/`);
    const html = await page.text();
    expect(Object.fromEntries(page.headers)).toMatchObject({
      'cache-control': 'no-cache',
      'content-type': 'text/html; charset=utf-8',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
    });
    const policy = page.headers.get('content-security-policy') ?? '';
    for (const rule of ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]) {
      expect(policy).toContain(rule);
    }
    expect(policy).not.toMatch(/unsafe|https?:|\*|data:/);
    expect(html).not.toMatch(/<script(?![^>]* src=)|<style|style=|https?:/);
    const names = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, name = '']) => name);
    expect(names).toHaveLength(3);
    for (const name of names) {
      expect(name).toMatch(/-[\w-]{8,10}\.(?:js|css|svg)$/);
      const file = await fetch(`${sms.http}/console/${name}`, { headers: { 'accept-encoding': 'identity' } });
      expect(file.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
      expect(file.headers.get('content-encoding')).toBeNull();
      // What the source says to a bundler must not reach out of the page.
      expect(await file.text()).not.toMatch(/sourceMappingURL|\beval\(|new Function/);
    }
  });

  it('is sent compressed to who can read that, and to nobody a file that is not part of it', async () => {
    const { sms } = await startTestSms();
    const { default: http } = await import('node:http');
    const zipped = await new Promise<Buffer>((resolve, reject) => {
      http
        .get(`${sms.http}/console/`, { headers: { 'accept-encoding': 'gzip' } }, async (response) => {
          const chunks: Buffer[] = [];
          for await (const chunk of response) chunks.push(chunk as Buffer);
          resolve(Buffer.concat(chunks));
        })
        .on('error', reject);
    });
    expect(gunzipSync(zipped).toString()).toContain('<!doctype html>');
    for (const path of ['nothing.js', '..%2fspear-sms.cjs', '%2e%2e%2f%2e%2e%2fpackage.json', '%00']) {
      expect([path, (await fetch(`${sms.http}/console/${path}`)).status]).toEqual([path, 404]);
    }
  });
});

const tools = ['read_file', 'write_file'].map((name) => ({ name, definitionSha256: 'b'.repeat(64) }));

async function withNode(sms: TestSms): Promise<void> {
  const list = toolListReport(tools);
  const server = { serverId: 'fs', health: 'connected' as const, lastError: null, toolCount: 2, reconnects: 0 };
  await sms.source().report(
    {
      nodeId: 'm:1',
      registryState: 'ready',
      epoch: '',
      snapshotRevision: 1,
      servers: [{ ...server, latencyMs: 12, toolsHash: list.hash }],
      toolLists: [list],
    },
    AbortSignal.timeout(45_000),
  );
}

describe('what a console asks', () => {
  it('is answered with servers as nodes see them, and the tools that they were given', async () => {
    const sms = await startTestSms();
    await sms.http('POST', '/admin/api/mcp/servers', { json: { ...fsRecord, pins: { write_file: 'c'.repeat(64) } } });
    await withNode(sms);
    const { body } = await sms.http('GET', '/admin/api/mcp/summary');
    const { servers } = body as unknown as SummaryJson;
    expect(servers).toMatchObject([
      { server_id: 'fs', health: 'connected', tool_count: 2, latency_ms: 12, pinned: 1, target: 'mcp-fs /data' },
    ]);
    expect((await sms.http('GET', '/admin/api/mcp/servers/fs/tools')).body).toMatchObject({
      lists: [
        {
          nodes: ['m:1'],
          tools: [
            { name: 'read_file', pin: 'none' },
            { name: 'write_file', pin: 'different' },
          ],
        },
      ],
    });
    expect((await sms.http('GET', '/admin/api/mcp/servers/none/tools')).status).toBe(404);
    expect((await sms.http('GET', '/admin/api/overview')).body).toMatchObject({
      servers: 1,
      health: { connected: 1, unused: 0 },
      nodes: { machines: 1, processes: 1, behind: 1 },
      pending_approvals: 0,
    });
  });

  it('is told what a write would do, without a write and without a line in the trail', async () => {
    const sms = await startTestSms();
    await sms.http('POST', '/admin/api/mcp/servers', { json: fsRecord });
    const check = async (record: object) =>
      (await sms.http('POST', '/admin/api/mcp/servers/check', { json: { server_id: 'fs', record } }))
        .body as unknown as RecordCheckJson;
    const stored = (await sms.http('GET', '/admin/api/mcp/servers/fs')).body;
    const same = await check(stored);
    expect(same).toMatchObject({ ok: true, errors: [] });
    expect(same.after).toEqual(same.before);
    expect(JSON.stringify(same)).not.toContain('debug'); // the literal of an env, masked in both
    const wrong = await check({ ...stored, transport: 'pigeon' });
    expect(wrong).toMatchObject({ ok: false, after: null, errors: [{ field: 'transport' }] });
    const masked = await check({ ...fsRecord, stdio: { command: 'x', env: { NEW: '********' } } });
    expect(masked.errors[0]?.field).toBe('stdio.env.NEW');
    expect((await sms.http('GET', '/admin/api/mcp/servers')).body.revision).toBe(1);
  });

  it('has the layer and the pattern that decide about each server and tool [console.access]', async () => {
    const sms = await startTestSms();
    await sms.http('POST', '/admin/api/mcp/servers', { json: fsRecord });
    await withNode(sms);
    const config = { 'mcp.enabled': true, 'mcp.default_server_ids': ['fs'] };
    const tasks = [
      { name: 'on', config: { config } },
      { name: 'off', config: { config: { 'mcp.default_server_ids': ['fs'] } } },
      { name: 'wrong', config: { config: { 'mcp.enabled': 'perhaps' } } },
    ];
    const ask = async (json: object) => (await sms.http('POST', '/admin/api/mcp/access', { json })).body;
    const matrix = (await ask({ tasks })) as unknown as AccessJson;
    expect(matrix.servers).toEqual([{ server_id: 'fs', tools: 2 }]);
    expect(matrix.tasks).toMatchObject([
      { name: 'on', problems: [], cells: [{ allowed: true, tools_allowed: 1 }] },
      { name: 'off', cells: [{ allowed: false, by: { layer: 'task', rule: 'mcp.enabled' } }] },
      { name: 'wrong', problems: ['config.mcp.enabled: must be true or false'], cells: [] },
    ]);
    const server = (await ask({ tasks: [tasks[0]], server_id: 'fs' })) as unknown as AccessServerJson;
    expect(server.tasks[0]?.cells).toMatchObject([
      { allowed: true, by: { layer: 'registry', rule: 'allowed_tools', matched: 'read_*' } },
      { allowed: false, by: { layer: 'registry', rule: 'allowed_tools', matched: null } },
    ]);
    expect(server.tasks[0]?.cells[1]?.walk.find(({ verdict }) => verdict === 'denies')?.fix).toContain('write_file');
    for (const [json, detail] of [
      [{}, 'tasks: must be a list'],
      [{ tasks: [] }, 'tasks: must be a list'],
      [{ tasks: [{ name: 'a' }] }, 'tasks[0].config'],
      [{ tasks: [{ config: {} }] }, 'tasks[0]: must have a name'],
    ] as const) {
      expect(await ask(json)).toMatchObject({ status: 400, detail: expect.stringContaining(detail) });
    }
  });

  it('is told by a stream which topics changed, and ends with the token', async () => {
    const sms = await startTestSms();
    const token = String(
      (await sms.http('POST', '/admin/api/tokens', { json: { name: 'looker', roles: ['viewer'] } })).body.token,
    );
    const response = await fetch(`${sms.sms.http}/admin/api/live`, { headers: { authorization: `Bearer ${token}` } });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    let text = '';
    const next = async (): Promise<LiveJson | null> => {
      for (;;) {
        const found = /data: (.*)\n\n/.exec(text);
        if (found !== null) {
          text = text.slice(found.index + found[0].length);
          return JSON.parse(found[1] ?? '') as LiveJson;
        }
        const { done, value } = await reader.read();
        if (done) return null;
        text += decoder.decode(value, { stream: true });
      }
    };
    const before = await next();
    await sms.http('POST', '/admin/api/mcp/servers', { json: fsRecord });
    let after = await next();
    while (after !== null && after.topics.servers === before?.topics.servers) after = await next();
    expect(after?.boot).toBe(before?.boot);
    expect(after?.topics.servers).toBeGreaterThan(before?.topics.servers ?? 0);
    await sms.http('DELETE', '/admin/api/tokens/looker');
    while ((await next()) !== null);
  });
});
