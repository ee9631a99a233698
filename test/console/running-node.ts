import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { npmServer, sandboxOf } from '../agent/mcp/client/pool-records.ts';
import { Cli, fixture, scratch } from '../e2e/spear-run.ts';
import type { SteeredModel } from '../e2e/steered-model.ts';
import type { Answer, TestSms } from '../registry/running-sms.ts';

const SEEN_MS = 45_000;

/** A real MCP server, as the registry has it. */
export const notes = {
  server_id: 'notes',
  display_name: 'Project notes',
  transport: 'stdio',
  stdio: {
    command: process.execPath,
    args: [npmServer('filesystem'), fixture('demo/notes')],
    cwd: fixture('demo/notes'),
  },
  sandbox: sandboxOf(fixture('demo/notes')),
  allowed_tools: ['*'],
  tags: ['docs', 'team-a'],
};

export const broken = {
  server_id: 'broken',
  transport: 'stdio',
  stdio: { command: '/nowhere/at-all' },
  sandbox: sandboxOf(),
  allowed_tools: ['*'],
};

export async function register(sms: TestSms, record: object): Promise<void> {
  const { status, text } = await sms.http('POST', '/admin/api/mcp/servers', { json: record });
  expect(status, text).toBe(201);
}

/** `spear-run` with a guest that waits for its model, following the registry. */
export async function startNode(sms: TestSms, model: SteeredModel, more: readonly string[] = []): Promise<Cli> {
  const file = join(scratch, 'task-of-console.json');
  const config = { 'mcp.enabled': 'true', 'mcp.default_server_ids': JSON.stringify(['notes', 'broken']) };
  writeFileSync(file, JSON.stringify({ name: 'review', config, args: ['go'] }));
  const env = { OPENAI_BASE_URL: await model.start(), OPENAI_API_KEY: 'test-key', OPENAI_MODEL: 'steered' };
  const flags = ['--task-config', file, '--sms', sms.sms.grpc, '--sms-token', sms.nodeToken, ...more];
  return new Cli([fixture('c/files.wasm'), ...flags], { env }).listen();
}

/** Resolves when a node has told of the server's tools. */
export async function toolsSeen(sms: TestSms, server: string): Promise<void> {
  const end = performance.now() + SEEN_MS;
  for (;;) {
    const { body, text } = await sms.http('GET', `/admin/api/mcp/servers/${server}/tools`);
    if ((body.lists as Answer[] | undefined)?.length) return;
    if (performance.now() > end) throw new Error(`no node has told of them: ${text}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
