import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { fixture as serverFixture, startHttp } from '../agent/mcp/client/pool-samples.ts';
import { fileWith, recordDir, recordOf, script, taskWithMcp } from '../agent/mcp/mcp-run.ts';
import { startTestSms, stopAll } from '../registry/running-sms.ts';
import { needsBubblewrap } from '../support/needs.ts';
import { fixture, scratch, spearRun } from './spear-run.ts';

vi.setConfig({ testTimeout: 120_000 });

afterEach(stopAll);

const guest = fixture('c/files.wasm');

/** A model that calls one tool, and ends. */
const once = (name: string) =>
  script({ reply: { tool_calls: [{ id: 'a', name, arguments: {} }] } }, { reply: { content: 'the end' } });

describe('an HTTP server on this machine', () => {
  async function web() {
    const { url } = await startHttp(serverFixture('http.mjs'), []);
    return { server_id: 'web', transport: 'streamable_http', http: { url: url('/mcp') }, allowed_tools: ['*'] };
  }
  const config = (toml: string) => ['--config', fileWith('config.toml', toml)];
  const denied = /egress\.allow_addresses/;

  it.each([
    ['is reached where the record is the user’s own', [], false],
    ['is not where the config lists nothing', config('[egress]\nallow_addresses = []\n'), true],
    ['is not where the config lists other hosts', config('[egress]\nallow_hosts = ["*.example.com"]\n'), true],
  ] as const)('%s', async (_, flags, refused) => {
    const directory = recordDir({ 'web.json': await web() });
    const args = [guest, ...taskWithMcp(['web']), '--mcp-dir', directory, ...once('web_pid'), ...flags, '--verbose'];
    const { stderr, code } = await spearRun(args);
    expect(code, stderr).toBe(0);
    expect(/egress\.allow_/.test(stderr), stderr).toBe(refused);
    expect(stderr.includes('mcp web: streamable_http')).toBe(!refused);
  });

  it('is not reached by a record of a registry unless it is listed', async () => {
    const sms = await startTestSms();
    await sms.http('POST', '/admin/api/mcp/servers', { json: await web() });
    const common = [guest, ...taskWithMcp(['web']), '--sms', sms.sms.grpc, '--sms-token', sms.nodeToken, '--verbose'];
    const refused = await spearRun([...common, ...once('web_pid')]);
    expect(refused.stderr).toMatch(denied);
    expect(refused.stderr).toContain('127.0.0.1 is a loopback address');
    const listed = config('[egress]\nallow_addresses = ["loopback"]\n');
    const allowed = await spearRun([...common, ...once('web_pid'), ...listed]);
    expect(allowed.stderr).not.toMatch(denied);
    expect(allowed.stderr).toContain('mcp web: streamable_http');
  });

  it('that is named wrongly in the config is told', async () => {
    const toml = '[egress]\nallow_addresses = ["loopbak"]\nallow_hosts = ["http://x"]\n';
    const { stderr, code } = await spearRun([guest, ...config(toml)]);
    expect(code).toBe(125);
    expect(stderr).toContain('egress.allow_addresses[0]: must be an IP address, a CIDR block such as "10.1.0.0/16"');
    expect(stderr).toContain('egress.allow_hosts[0]: must be a host name or pattern');
  });
});

it('a sandboxed server of spear-run sees what its record lists and no more [sandbox.files]', async ({ skip }) => {
  const missing = needsBubblewrap();
  if (missing !== undefined) skip(missing);
  const folder = join(scratch, 'boxed');
  mkdirSync(folder);
  writeFileSync(join(folder, 'a'), 'listed content');
  writeFileSync(join(scratch, 'b'), 'other content');
  const paths = [dirname(serverFixture('confined.mjs')), folder];
  const record = recordOf('box', 'confined.mjs', { sandbox: { network: 'deny', read_only_paths: paths } });
  const read = (id: string, path: string) => ({ id, name: 'box_read', arguments: { path } });
  const model = script(
    { reply: { tool_calls: [read('a', join(folder, 'a'))] } },
    {
      when: { tool_call_id: 'a', content: { contains: 'listed content' } },
      reply: { tool_calls: [read('b', join(scratch, 'b'))] },
    },
    { when: { tool_call_id: 'b', content: { contains: 'ENOENT' } }, reply: { content: 'as it should be' } },
  );
  const flags = [...taskWithMcp(['box']), '--mcp-dir', recordDir({ 'box.json': record }), ...model];
  const { code, stdout, stderr } = await spearRun([guest, ...flags]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain('as it should be');
});
