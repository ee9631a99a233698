import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { metrics } from '@opentelemetry/api';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { loadHostConfig } from '../../src/config/host/host-config.ts';
import { TaskRuntimes } from '../../src/node/task-runtimes.ts';
import { openRunRegistry } from '../../src/run/open-registry.ts';
import { RegistryServers } from '../../src/run/registry-servers.ts';
import { libraryWords } from '../../src/run/run-options.ts';
import type { TaskRevision } from '../../src/server/records/task.ts';
import { createMetrics } from '../../src/server/telemetry/metrics.ts';
import { onStop, startTestSms, stopAll, type TestSms, temporaryDirectory } from '../registry/running-sms.ts';
import { fixture } from '../registry/tasks/task-calls.ts';

beforeEach(() => {
  vi.stubEnv('XDG_STATE_HOME', temporaryDirectory());
});
afterEach(async () => {
  await stopAll();
  vi.unstubAllEnvs();
});

const revision = (namespace: string, name: string): TaskRevision => ({
  ...{ namespace, name, wasm: 'a'.repeat(64), description: '', args: [], env: {}, backend: null, pool: 'default' },
  ...{ isolation: 'shared', concurrency: 1, limits: {}, retry: { max_attempts: 1 } },
  config: { 'mcp.enabled': true, 'mcp.default_server_ids': ['ledger'] },
  budgets: { tokens_per_run: null, tokens_per_day: null },
  ...{ revision: 1, digest: 'b'.repeat(64), created_at_ms: 0, created_by: 'admin' },
});

/** Tasks as a node opens them, with the servers and stops of a registry. */
async function openRuntimes(sms: TestSms): Promise<TaskRuntimes> {
  const folder = temporaryDirectory();
  writeFileSync(join(folder, 'config.toml'), '');
  const host = await loadHostConfig({ file: join(folder, 'config.toml'), env: {} });
  const opener = { words: libraryWords, say: () => {}, profiles: false };
  const registry = await openRunRegistry({ sms: { address: sms.sms.grpc, token: sms.nodeToken } }, opener);
  onStop(() => registry.close());
  const servers = await RegistryServers.open({ stateDir: folder }, registry, 'n1');
  onStop(() => servers.close());
  const runtimes = new TaskRuntimes({
    ...{ host, servers, stateDir: folder, audit: null, node: 'n1', approvals: null, log: () => {} },
    modules: { module: async () => readFileSync(fixture('c/files.wasm')) },
    metrics: createMetrics(metrics),
  });
  onStop(() => runtimes.close());
  return runtimes;
}

it('refuses the servers of a task that is stopped, and of no other task [stop.calls]', async () => {
  const sms = await startTestSms();
  const server = { server_id: 'ledger', transport: 'stdio', stdio: { command: 'ledger' }, namespaces: ['*'] };
  const { status, text } = await sms.http('POST', '/admin/api/mcp/servers', {
    json: { ...server, allowed_tools: ['*'] },
  });
  expect(status, text).toBe(201);
  const stop = { scope: 'task', name: 'team-a/agent', reason: 'incident 12' };
  expect((await sms.http('POST', '/admin/api/stops', { json: stop })).status).toBe(201);
  const runtimes = await openRuntimes(sms);
  const offered = (namespace: string, name: string) =>
    runtimes.using(revision(namespace, name), async ({ mcp }) => ({
      servers: mcp?.effective.serverIds,
      refused: mcp?.effective.exclusions.map(({ reason }) => reason),
    }));

  expect(await offered('team-a', 'agent')).toEqual({ servers: [], refused: ['stopped'] });
  expect(await offered('team-a', 'other')).toEqual({ servers: ['ledger'], refused: [] });
  expect(await offered('team-b', 'agent')).toEqual({ servers: ['ledger'], refused: [] });
});
