import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { RunRecord } from '../../src/server/records/run.ts';
import { stopAll, temporaryDirectory } from '../registry/running-sms.ts';
import { fixture } from '../registry/tasks/task-calls.ts';
import { eventually } from '../support/eventually.ts';
import { ledgerRecord, writeNodeFolder } from '../torture/node/node-life.ts';
import { startNode } from './started-spearlet.ts';

beforeEach(() => {
  vi.stubEnv('XDG_STATE_HOME', temporaryDirectory());
});
afterEach(async () => {
  await stopAll();
  vi.unstubAllEnvs();
});

/** A task whose agent also wants these servers. */
const task =
  (servers: readonly string[], ...more: readonly string[]) =>
  (folder: string) =>
    writeFileSync(
      join(folder, 'tasks.d', 'agent.toml'),
      [
        'name = "agent"',
        `wasm = ${JSON.stringify(fixture('c/files.wasm'))}`,
        '[config]',
        '"mcp.enabled" = true',
        `"mcp.default_server_ids" = ${JSON.stringify(servers)}`,
        ...more,
      ].join('\n'),
    );

const hang = (folder: string) =>
  writeFileSync(
    join(folder, 'mcp.d', 'mute.json'),
    JSON.stringify({
      server_id: 'mute',
      transport: 'stdio',
      stdio: { command: process.execPath, args: [fixture('mcp-servers/lists.mjs'), 'slow', '3600000'] },
      allowed_tools: ['*'],
    }),
  );

type Node = Awaited<ReturnType<typeof startNode>>;

const submitted = async (node: Node) => (JSON.parse((await node.submit('agent')).text) as RunRecord).id;

async function ended(node: Node, id: string): Promise<RunRecord> {
  await eventually(async () => (await node.run(id)).ended_at_ms !== null, 'the run to end');
  return node.run(id);
}

describe('a run on a node', () => {
  it('continues without a missing server and is marked in its record, its events and the log [run.degraded]', async () => {
    const node = await startNode({}, task(['ledger', 'ghost']));
    const id = await submitted(node);
    const degraded = [{ server: 'ghost', reason: '"ghost" is not in the registry' }];
    expect(await ended(node, id)).toMatchObject({ status: 'succeeded', cost: { tool_calls: 3 }, degraded });
    const { text } = await node.ask(`/v1/namespaces/default/runs?limit=10`);
    expect((JSON.parse(text) as { runs: RunRecord[] }).runs).toMatchObject([{ id, degraded }]);
    const events = await node.ask(`/v1/namespaces/default/runs/${id}/events`);
    expect(events.text).toContain(`{"status":"running","degraded":${JSON.stringify(degraded)}}`);
    expect(node.logged.filter((line) => line.startsWith('warn run_degraded'))).toEqual([
      expect.stringContaining('ghost'),
    ]);
  });

  it('with all its tools is not marked [run.degraded]', async () => {
    const node = await startNode();
    expect(await ended(node, await submitted(node))).toMatchObject({ status: 'succeeded', degraded: null });
  });

  it('is marked on a node without any registry [run.degraded]', async () => {
    const node = await startNode({ registry: {} });
    const run = await ended(node, await submitted(node));
    expect(run.degraded).toEqual([{ server: '*', reason: expect.stringContaining('no registry') }]);
  });

  it.each([
    ['that is missing', {}],
    ['of a node without any registry', { registry: {} }],
  ])('fails at the start without a required server %s [mcp.required]', async (_, options) => {
    const node = await startNode(options, task(['ledger', 'ghost'], '"mcp.required_server_ids" = ["ghost"]'));
    const run = await ended(node, await submitted(node));
    expect(run).toMatchObject({ status: 'failed', attempts: 1, exit: { reason: 'required_server' } });
    expect(run.exit?.message).toMatch(/ghost|no registry/);
    expect(run.degraded).toHaveLength(1);
  });

  it('says which server it waits for, and no longer once it is cancelled [mcp.wait-status]', async () => {
    const node = await startNode({}, (folder) => {
      hang(folder);
      task(['mute'])(folder);
    });
    const id = await submitted(node);
    await eventually(async () => (await node.run(id)).status_reason != null, 'the reason');
    expect((await node.run(id)).status_reason).toMatch(/^server mute: tools\/list, \d+ s of 15$/);
    await node.ask(`/v1/namespaces/default/runs/${id}/cancel`, { method: 'POST' });
    expect(await ended(node, id)).toMatchObject({ status: 'cancelled', status_reason: null });
  });

  it('keeps its mark and does not diverge when it resumes with the server back [run.degraded]', async () => {
    const folder = temporaryDirectory();
    const slowly = (at: string) => {
      writeNodeFolder(at, { turnMs: 300, node: 'drain_ms = 0' });
      task(['ledger', 'ghost'])(at);
    };
    const first = await startNode({}, slowly, folder);
    const id = await submitted(first);
    await eventually(async () => (await first.run(id)).degraded != null, 'the mark');
    await first.node.close();
    expect(first.logged.filter((line) => line.includes('run_ended'))).toEqual([]);

    const ghost = { ...ledgerRecord(join(folder, 'trail-of-ghost')), server_id: 'ghost' };
    const second = await startNode(
      {},
      (at) => {
        slowly(at);
        writeFileSync(join(at, 'mcp.d', 'ghost.json'), JSON.stringify(ghost));
      },
      folder,
    );
    const run = await ended(second, id);
    expect(run).toMatchObject({ status: 'succeeded', cost: { tool_calls: 3 }, degraded: [{ server: 'ghost' }] });
  });
});
