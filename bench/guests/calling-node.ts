import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { sampleRecord } from '../../test/server/records/server-samples.ts';
import { NodeLives } from '../../test/torture/node/node-life.ts';
import type { SmsProcess } from './sms-process.ts';

const fixture = (path: string) => fileURLToPath(new URL(`../../fixtures/${path}`, import.meta.url));
const LOOK_MS = 10;
const CALL_MS = 60_000;

/** A node that follows a registry, with a task that makes one long call. */
export interface CallingNode {
  /** Lets it call; resolves when its server has the call. `ended`: what the run came to. */
  call(): Promise<{ readonly ended: Promise<string> }>;
  /** Takes the tool away. */
  narrow(): Promise<void>;
  close(): Promise<void>;
}

export async function openCallingNode(sms: Pick<SmsProcess, 'grpc' | 'nodeToken' | 'upsert'>): Promise<CallingNode> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-bench-call-'));
  const trail = join(folder, 'trail');
  const calls = () => (existsSync(trail) ? readFileSync(trail, 'utf8').split('\n').length - 1 : 0);
  const record = (allowed_tools: readonly string[]) =>
    sampleRecord('slow', {
      stdio: { command: process.execPath, args: [fixture('mcp-servers/counting.mjs')], env: { TRAIL: trail } },
      allowed_tools,
      budgets: { tool_timeout_ms: CALL_MS },
    });
  mkdirSync(join(folder, 'tasks.d'));
  const args = ['slow', 'work', JSON.stringify({ label: 'long', ms: CALL_MS })];
  const task = [
    `name = "call"\nwasm = ${JSON.stringify(fixture('c/test/mcp-call.wasm'))}\nargs = ${JSON.stringify(args)}`,
    '[config]\n"mcp.enabled" = true\n"mcp.default_server_ids" = ["slow"]',
  ];
  writeFileSync(join(folder, 'tasks.d', 'call.toml'), task.join('\n'));
  writeFileSync(join(folder, 'config.toml'), '[mcp]\nstdio = "allow"\n');
  const registry = ['--sms', `http://${sms.grpc}`, '--sms-token', sms.nodeToken];
  const node = new NodeLives(folder, [], ['--task-dir', join(folder, 'tasks.d'), ...registry]);
  const close = async () => {
    await node.kill();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await sms.upsert(record(['*']));
    await node.start();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    async call() {
      await sms.upsert(record(['*']));
      const before = calls();
      const path = '/v1/namespaces/default/tasks/call/runs';
      for (;;) {
        const ended = node.ask('POST', path, { body: '', headers: { prefer: 'wait=60' } }).then(({ text }) => text);
        const isOver = ended.then(() => true);
        // One that was begun before the node has heard of the record ends at once.
        while (calls() === before && !(await Promise.race([isOver, pause(LOOK_MS, false)])));
        if (calls() > before) return { ended };
      }
    },
    async narrow() {
      await sms.upsert(record(['seen']));
    },
    close,
  };
}
