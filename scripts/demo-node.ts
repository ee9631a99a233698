// The platform on one machine, offline: a registry, a node that follows it, a task that is applied to the registry, somebody
// with a token of it who runs the task a hundred times with a scripted model and the official file system server; then
// what became of the runs.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { ScriptTurn } from '../src/agent/chat/backends/script-schema.ts';
import type { RunRecord } from '../src/server/records/run.ts';
import { root, Stage } from './demo-stage.ts';

const RUNS = 100;
/** Submissions under way at one time. */
const AT_ONCE = 10;
const ALL_RUNS_MS = 300_000;

const demo = join(root, 'fixtures', 'demo');

await Stage.open('node', main);

async function main(stage: Stage): Promise<number> {
  const socketOf = (folder: string) => `unix:${stage.path(folder, 'sockets', 'http.sock')}`;
  const nodeSocket = socketOf('node');
  const spear = (args: readonly string[]) => {
    stage.spear(args, { env: { SPEAR_SMS: socketOf('sms'), SPEAR_NODE: nodeSocket } });
    console.log('');
  };
  prepare(stage.workspace);
  const { says: sms } = await stage.serve('spear-sms', [
    '--grpc',
    '127.0.0.1:0',
    '--http',
    '127.0.0.1:0',
    '--data',
    'sms/registry.db',
    '--mcp-registry-dir',
    'mcp.d',
  ]);
  const smsSocket = `unix:${stage.path('sms', 'sockets', 'grpc.sock')}`;
  console.log(`  a registry with one MCP server: ${sms.http}\n`);
  spear(['tasks', 'apply', 'tasks.d/notes.toml']);
  spear(['tokens', 'create', 'ann', '--role', 'submitter', '--namespace', 'default', '-o', 'ann.token']);
  const { says: node } = await stage.serve('spearlet', [
    '--config',
    'config.toml',
    '--sms',
    smsSocket,
    '--data',
    'node',
    '--listen',
    '127.0.0.1:0',
    '--slots',
    '16',
  ]);
  console.log(`  a node that accepts runs: ${node.http}\n`);
  spear(['tasks', 'ls', '--node', nodeSocket]);
  const began = performance.now();
  const ask = asking(String(node.http), readFileSync(stage.path('ann.token'), 'utf8').trim());
  await submitAll(ask);
  const runs = await whenAllEnded(ask);
  const seconds = (performance.now() - began) / 1000;
  const good = runs.filter(({ status }) => status === 'succeeded').length;
  console.log(`${RUNS} runs of an agent: ${good} succeeded, in ${seconds.toFixed(1)} s\n`);
  spear(['runs', 'ls', '--limit', '5']);
  spear(['runs', 'result', runs[0]?.id ?? '']);
  return good === RUNS ? 0 : 1;
}

function prepare(workspace: string): void {
  cpSync(join(demo, 'notes'), join(workspace, 'notes'), { recursive: true });
  for (const folder of ['sms', 'mcp.d', 'tasks.d']) mkdirSync(join(workspace, folder), { mode: 0o700 });
  const entry = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-filesystem/dist/index.js');
  const notes = join(workspace, 'notes');
  const record = {
    server_id: 'notes',
    transport: 'stdio',
    stdio: { command: process.execPath, args: [entry, notes], cwd: notes },
    allowed_tools: ['*'],
  };
  writeFileSync(join(workspace, 'mcp.d', 'notes.json'), JSON.stringify(record));
  const { turns } = JSON.parse(readFileSync(join(demo, 'model.json'), 'utf8')) as { turns: ScriptTurn[] };
  const usage = { prompt_tokens: 400, completion_tokens: 60, total_tokens: 460 };
  const often = turns.map((turn) => ({ ...turn, reply: { ...turn.reply, usage }, delay_ms: 20, repeat: true }));
  writeFileSync(join(workspace, 'model.json'), JSON.stringify({ model: 'scripted-demo', turns: often }));
  const config = ['[backends.main]', 'kind = "scripted"', 'script = "model.json"', '', '[mcp]', 'stdio = "allow"', ''];
  writeFileSync(join(workspace, 'config.toml'), config.join('\n'));
  cpSync(join(root, 'fixtures', 'c', 'files.wasm'), join(workspace, 'tasks.d', 'files.wasm'));
  const task = [
    'name = "notes"',
    'wasm = "files.wasm"',
    'description = "Answers a question from the notes"',
    '[config]',
    '"mcp.enabled" = true',
    '"mcp.default_server_ids" = ["notes"]',
    '"mcp.tool_denylist" = ["write_*", "edit_*", "move_*"]',
    '[budgets]',
    'tokens_per_run = 200000',
    '',
  ];
  writeFileSync(join(workspace, 'tasks.d', 'notes.toml'), task.join('\n'));
}

type Ask = (path: string, more?: RequestInit) => Promise<Response>;

function asking(url: string, token: string): Ask {
  return (path, more = {}) => fetch(`${url}${path}`, { ...more, headers: { authorization: `Bearer ${token}` } });
}

async function submitAll(ask: Ask): Promise<void> {
  console.log(`POST /v1/namespaces/default/tasks/notes/runs, ${RUNS} times\n`);
  let begun = 0;
  const lane = async () => {
    while (begun++ < RUNS) {
      const { status } = await ask('/v1/namespaces/default/tasks/notes/runs', { method: 'POST', body: '' });
      if (status !== 202) throw new Error(`the node answered ${status}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

async function whenAllEnded(ask: Ask): Promise<readonly RunRecord[]> {
  const until = performance.now() + ALL_RUNS_MS;
  while (performance.now() < until) {
    const answer = await ask(`/v1/namespaces/default/runs?limit=${RUNS}`);
    const { runs } = (await answer.json()) as { runs: RunRecord[] };
    if (runs.length === RUNS && runs.every(({ ended_at_ms }) => ended_at_ms !== null)) return runs;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error('not all runs have ended');
}
