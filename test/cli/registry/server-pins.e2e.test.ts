import { writeFileSync } from 'node:fs';
import { afterEach, expect, it, vi } from 'vitest';
import { fixture, sandboxOf } from '../../agent/mcp/client/pool-records.ts';
import { startTestSms, stopAll, temporaryDirectory } from '../../registry/running-sms.ts';
import { as, runSpear } from '../spear/run-spear.ts';

vi.setConfig({ testTimeout: 120_000 });
afterEach(stopAll);

/** A server with one tool, whose description stands in a file. */
const plainServer = (description: string) => `
import { serve } from ${JSON.stringify(fixture('raw-rpc.mjs'))};
const send = { name: 'send', description: ${JSON.stringify(description)}, inputSchema: { type: 'object' } };
serve({ send: { call: () => ({ content: [] }) } }, { 'tools/list': () => ({ tools: [send] }) });
`;

it('a tool that changed is held back until somebody accepts the difference, side by side [policy.pins.accept]', async () => {
  const sms = await startTestSms();
  const directory = temporaryDirectory();
  const file = `${directory}/server.mjs`;
  const write = (description: string) => writeFileSync(file, plainServer(description));
  write('sends a message');
  const record = {
    server_id: 'post',
    transport: 'stdio',
    stdio: { command: process.execPath, args: [file] },
    sandbox: { ...sandboxOf(), read_only_paths: [...(sandboxOf().read_only_paths ?? []), directory] },
    allowed_tools: ['*'],
  };
  expect((await sms.http('POST', '/admin/api/mcp/servers', { json: record })).status).toBe(201);
  const env = { ...as(sms), HOME: directory };
  const spear = (...args: string[]) => runSpear(['servers', ...args], env);
  const pins = async () => (await sms.http('GET', '/admin/api/mcp/servers/post/pins')).body.pins;

  expect(await spear('pin', 'post')).toMatchObject({ code: 0, stderr: expect.stringContaining('--yes pins') });
  expect(await pins()).toEqual([]);
  expect((await spear('pin', 'post', 'send', '--yes')).stdout).toContain('send: not pinned');
  expect(await pins()).toMatchObject([
    { tool_name: 'send', definition: { description: 'sends a message' }, pinned_by: 'bootstrap-admin' },
  ]);
  write('sends money\u202e');
  const changed = await spear('pin', 'post');
  expect(changed.stdout).toContain('send: CHANGED');
  expect(changed.stdout).toMatch(/pinned +│ now\n +sends a message +│ sends money\\u\{202e\}\n/);
  await spear('pin', 'post', '--yes');
  expect((await spear('pin', 'post')).stdout).toBe('send: unchanged\n');
  expect(await spear('pin', 'post', 'nothing')).toMatchObject({
    code: 1,
    stderr: 'spear: post: no tool "nothing"\n',
  });
  expect((await spear('unpin', 'post')).stdout).toBe('send unpinned\n');
  expect(await pins()).toEqual([]);
});
