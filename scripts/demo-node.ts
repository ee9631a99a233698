// The platform on one machine, offline: a registry, a node that follows it, a task that is applied to the registry, somebody
// with a token of it who runs the task a hundred times with a scripted model and the official file system server; then
// what became of the runs.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { ScriptTurn } from '../src/chat/backends/script-schema.ts';
import type { RunRecord } from '../src/protocol/run.ts';

const RUNS = 100;
/** Submissions under way at one time. */
const AT_ONCE = 10;
const START_MS = 30_000;
const ALL_RUNS_MS = 300_000;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const demo = join(root, 'fixtures', 'demo');
const workspace = mkdtempSync(join(tmpdir(), 'spear-demo-node-'));
const socketOf = (folder: string) => `unix:${join(workspace, folder, 'sockets', 'http.sock')}`;
const nodeSocket = socketOf('node');
const started: ChildProcess[] = [];

if (!existsSync(join(root, 'dist', 'spearlet.cjs'))) await import('./build.ts');

try {
  process.exitCode = await main();
} finally {
  for (const child of started.reverse()) {
    const exited = once(child, 'exit');
    child.kill();
    await exited;
  }
  rmSync(workspace, { recursive: true, force: true });
}

async function main(): Promise<number> {
  prepare();
  const sms = await serve('spear-sms', [
    '--grpc',
    '127.0.0.1:0',
    '--http',
    '127.0.0.1:0',
    '--data',
    'sms/registry.db',
    '--mcp-registry-dir',
    'mcp.d',
  ]);
  const smsSocket = `unix:${join(workspace, 'sms', 'sockets', 'grpc.sock')}`;
  console.log(`  a registry with one MCP server: ${sms.http}\n`);
  spear(['tasks', 'apply', 'tasks.d/notes.toml']);
  spear(['tokens', 'create', 'ann', '--role', 'submitter', '--namespace', 'default', '-o', 'ann.token']);
  const node = await serve('spearlet', [
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
  console.log(`  a node that takes runs: ${node.http}\n`);
  spear(['tasks', 'ls', '--node', nodeSocket]);
  const began = performance.now();
  await submitAll(String(node.http));
  const runs = await whenAllEnded(String(node.http));
  const seconds = (performance.now() - began) / 1000;
  const good = runs.filter(({ status }) => status === 'succeeded').length;
  console.log(`${RUNS} runs of an agent: ${good} succeeded, in ${seconds.toFixed(1)} s\n`);
  spear(['runs', 'ls', '--limit', '5']);
  spear(['runs', 'result', runs[0]?.id ?? '']);
  return good === RUNS ? 0 : 1;
}

function prepare(): void {
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

/** A command that serves, once it says where. */
async function serve(name: string, args: readonly string[]): Promise<Record<string, string>> {
  console.log(`$ npx ${name} ${args.join(' ')}`.replaceAll(workspace, '$TMP'));
  const child = spawn(process.execPath, [join(root, 'bin', `${name}.cjs`), ...args], {
    cwd: workspace,
    env: { ...process.env, HOME: workspace, XDG_STATE_HOME: '', XDG_CONFIG_HOME: '' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  started.push(child);
  const line = once(createInterface(child.stdout), 'line', { signal: AbortSignal.timeout(START_MS) });
  const [text] = await Promise.race([
    line,
    once(child, 'exit').then(([code]) => Promise.reject(new Error(`${name} ended with ${code}`))),
  ]);
  return JSON.parse(String(text)) as Record<string, string>;
}

function spear(args: readonly string[]): void {
  console.log(`$ npx spear ${args.join(' ')}`.replaceAll(workspace, '$TMP'));
  const env = { ...process.env, SPEAR_SMS: socketOf('sms'), SPEAR_NODE: nodeSocket };
  const { status } = spawnSync(process.execPath, [join(root, 'bin', 'spear.cjs'), ...args], {
    cwd: workspace,
    env,
    stdio: 'inherit',
  });
  console.log('');
  if (status !== 0) throw new Error(`spear ${args[0]} ended with ${status}`);
}

function asked(url: string, path: string, more: RequestInit = {}): Promise<Response> {
  return fetch(`${url}${path}`, {
    ...more,
    headers: { authorization: `Bearer ${readFileSync(join(workspace, 'ann.token'), 'utf8').trim()}` },
  });
}

async function submitAll(url: string): Promise<void> {
  console.log(`POST /v1/namespaces/default/tasks/notes/runs, ${RUNS} times\n`);
  let begun = 0;
  const lane = async () => {
    while (begun++ < RUNS) {
      const { status } = await asked(url, '/v1/namespaces/default/tasks/notes/runs', { method: 'POST', body: '' });
      if (status !== 202) throw new Error(`the node answered ${status}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

async function whenAllEnded(url: string): Promise<readonly RunRecord[]> {
  const until = performance.now() + ALL_RUNS_MS;
  while (performance.now() < until) {
    const answer = await asked(url, `/v1/namespaces/default/runs?limit=${RUNS}`);
    const { runs } = (await answer.json()) as { runs: RunRecord[] };
    if (runs.length === RUNS && runs.every(({ ended_at_ms }) => ended_at_ms !== null)) return runs;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error('not all runs have ended');
}
