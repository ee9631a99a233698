import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ScriptTurn } from '../../../src/agent/chat/backends/script-schema.ts';
import { scratch } from '../../e2e/spear-run.ts';
import { fixture } from './client/pool-records.ts';

let made = 0;

/** A file of this test file's own. */
export function fileWith(name: string, content: string | object): string {
  const folder = join(scratch, `files-${++made}`);
  mkdirSync(folder);
  const path = join(folder, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

/** A directory with these files in it; an object is a record. */
export function recordDir(files: Readonly<Record<string, string | object>>): string {
  const folder = join(scratch, `mcp.d-${++made}`);
  mkdirSync(folder);
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
  return folder;
}

/** A record of a server of fixtures/mcp-servers. */
export function recordOf(serverId: string, script: string, fields: Readonly<Record<string, unknown>> = {}): object {
  const { env = {}, args = [], ...rest } = fields;
  const stdio = { command: process.execPath, args: [fixture(script), ...(args as string[])], env };
  return { server_id: serverId, transport: 'stdio', stdio, allowed_tools: ['*'], ...rest };
}

/** `--task-config` of a task with MCP on. */
export function taskWithMcp(servers: readonly string[], config: Readonly<Record<string, unknown>> = {}): string[] {
  return taskWith({ 'mcp.enabled': true, 'mcp.default_server_ids': servers, ...config });
}

/** `--task-config` of a task whose config has these keys. */
export function taskWith(config: Readonly<Record<string, unknown>>): string[] {
  return ['--task-config', fileWith('task.json', { name: 'test', config })];
}

/** `--script` of a model that takes these turns. */
export const script = (...turns: ScriptTurn[]): string[] => ['--script', fileWith('script.json', { turns })];
