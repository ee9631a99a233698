// Friday to Monday, on one machine and offline: an agent asks to pay an invoice, somebody has to allow it, the run is
// parked, its node is killed; on Monday Ann says yes, a node takes the run up and pays, once. Then tomorrow's policy is
// tried on what happened. Flags are given to the nodes: with a queue that two nodes can share (--queue …) the node of
// Monday is another one, with data of its own.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { RunRecord } from '../src/protocol/run.ts';

const START_MS = 120_000;
const WAIT_MS = 120_000;
const LOOK_MS = 50;
/** What `spear test` exits with that found a difference. */
const DIFFERS = 1;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const workspace = mkdtempSync(join(tmpdir(), 'spear-demo-friday-'));
const ledger = join(workspace, 'ledger.jsonl');
const smsSocket = (name: 'grpc' | 'http') => `unix:${join(workspace, 'sms', 'sockets', `${name}.sock`)}`;
const nodeFlags = process.argv.slice(2);
/** Where two nodes can share a queue, each has data of its own; otherwise the second takes over those of the first. */
const [friday, monday] = nodeFlags.includes('--queue') ? ['node-1', 'node-2'] : ['node', 'node'];
const running = new Set<ChildProcess>();

if (!existsSync(join(root, 'dist', 'spearlet.cjs'))) await import('./build.ts');

try {
  process.exitCode = await main();
} finally {
  for (const child of running) await ended(child, 'SIGTERM');
  rmSync(workspace, { recursive: true, force: true });
}

async function main(): Promise<number> {
  prepare();
  await serve('spear-sms', [
    ...['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', 'sms/registry.db', '--mcp-registry-dir', 'mcp.d'],
  ]);
  spear(['tokens', 'create', 'ann', '--role', 'approver', '--out', 'ann.token'], friday);

  title('Friday, 17:55: an agent wants to pay an invoice, and paying needs a yes');
  const first = await startNode(friday);
  const id = spear(['run', 'invoices', '--detach'], friday).trim();
  const parked = await until(friday, id, 'parked');
  spear(['approvals', 'ls'], friday);
  say(`The run is ${parked.status}: no guest, no slot; its journal and a row are all that is left of it.`);

  title('Friday, 18:30: the node is killed');
  await ended(first, 'SIGKILL');
  say(`kill -9 ${first.pid}; the ledger has ${paid().length} lines.`);

  title('Monday, 9:00: Ann says yes; nothing runs yet');
  const { parked_for: wanted } = parked;
  const request = wanted?.kind === 'approval' ? wanted.request : '';
  spear(['approvals', 'allow', request, '--token-file', 'ann.token', '--reason', 'checked'], friday);

  title(`Monday, 9:01: ${friday === monday ? 'a node is started again' : 'another node is started'}`);
  await startNode(monday);
  const done = await until(monday, id, 'succeeded');
  spear(['runs', 'result', id], monday);
  const lines = paid();
  say(`The ledger has ${lines.length} line: ${JSON.stringify(lines[0])}`);
  spear(['approvals', 'ls', '--status', 'used'], monday);
  say(`${done.attempts} attempt: waiting for somebody costs none.`);

  title('Tuesday: would the policy that is planned have let it through?');
  mkdirSync(join(workspace, 'journals'));
  writeFileSync(join(workspace, 'journals', `${id}.journal`), spear(['runs', 'journal', id], monday, 'quiet'));
  const judged = spear(['test', '--journals', 'journals', '--policy', 'tomorrow.json'], monday, 'differs');
  const isRefused = judged.includes('ACME is under review');
  const isRight = isRefused && lines.length === 1 && lines[0]?.run === id && done.attempts === 1;
  say(isRight ? 'Paid once, and not again like this.' : 'That is not how it should be.');
  return isRight ? 0 : 1;
}

function prepare(): void {
  for (const folder of ['sms', 'mcp.d', 'tasks.d']) mkdirSync(join(workspace, folder), { mode: 0o700 });
  const json = (file: string, value: object) => writeFileSync(join(workspace, file), JSON.stringify(value));
  const payments = join(root, 'fixtures', 'mcp-servers', 'payments.mjs');
  json('mcp.d/bank.json', {
    server_id: 'bank',
    transport: 'stdio',
    stdio: { command: process.execPath, args: [payments], env: { LEDGER: ledger } },
    allowed_tools: ['*'],
    approval_policy: { default: 'always' },
  });
  const pay = { id: 'pay-1', name: 'bank_pay', arguments: { invoice: 'ACME-2041', amount: 4200 } };
  json('model.json', {
    turns: [
      { when: { role: 'user' }, reply: { tool_calls: [pay] }, repeat: true },
      { when: { role: 'tool' }, reply: { content: 'Invoice ACME-2041 is paid.' }, repeat: true },
    ],
  });
  const mcp = { 'mcp.enabled': true, 'mcp.default_server_ids': ['bank'] };
  const rule = { name: 'ACME is under review', servers: ['bank'], tools: ['pay'], verdict: 'deny' };
  const about = [{ path: '/invoice', pattern: 'ACME-*' }];
  json('tomorrow.json', { config: { ...mcp, 'mcp.approval_rules': [{ ...rule, arguments: about }] } });
  const config = [
    '[backends.main]\nkind = "scripted"\nscript = "model.json"',
    '[mcp]\nstdio = "allow"',
    '[node]\npark_after_ms = 500',
  ];
  writeFileSync(join(workspace, 'config.toml'), config.join('\n\n'));
  cpSync(join(root, 'fixtures', 'c', 'files.wasm'), join(workspace, 'tasks.d', 'invoices.wasm'));
  const task = ['name = "invoices"', 'wasm = "invoices.wasm"', 'args = ["Pay what is due"]', '[config]'];
  for (const [key, value] of Object.entries(mcp)) task.push(`${JSON.stringify(key)} = ${JSON.stringify(value)}`);
  writeFileSync(join(workspace, 'tasks.d', 'invoices.toml'), task.join('\n'));
}

function startNode(data: string): Promise<ChildProcess> {
  const where = ['--data', data, '--listen', '127.0.0.1:0', '--config', 'config.toml', ...nodeFlags];
  return serve('spearlet', ['--task-dir', 'tasks.d', '--sms', smsSocket('grpc'), ...where]);
}

/** A command that serves, once it says where. */
async function serve(name: string, args: readonly string[]): Promise<ChildProcess> {
  show(name, args);
  const child = spawn(process.execPath, [join(root, 'bin', `${name}.cjs`), ...args], {
    cwd: workspace,
    env: { ...process.env, HOME: workspace, XDG_STATE_HOME: '', XDG_CONFIG_HOME: '' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  running.add(child);
  const line = once(createInterface(child.stdout), 'line', { signal: AbortSignal.timeout(START_MS) });
  const dead = once(child, 'exit').then(([code]) => Promise.reject(new Error(`${name} ended with ${code}`)));
  await Promise.race([line, dead]);
  dead.catch(() => {});
  return child;
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  running.delete(child);
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}

/** Runs a command, shows what it says, and gives it. `differs`: it is to find a difference. */
function spear(args: readonly string[], node: string, how: 'shown' | 'quiet' | 'differs' = 'shown'): string {
  show('spear', args);
  const env = {
    ...{ ...process.env, HOME: workspace, XDG_CONFIG_HOME: '', XDG_STATE_HOME: '' },
    SPEAR_NODE: `unix:${join(workspace, node, 'sockets', 'http.sock')}`,
    SPEAR_SMS: smsSocket('http'),
  };
  const command = [join(root, 'bin', 'spear.cjs'), ...args];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: workspace, env, encoding: 'utf8' });
  if (how !== 'quiet') process.stdout.write(`${stdout}${stderr}`.replaceAll(workspace, '$TMP'));
  if (status !== (how === 'differs' ? DIFFERS : 0)) throw new Error(`spear ${args[0]} ended with ${status}: ${stderr}`);
  return stdout;
}

async function until(node: string, id: string, status: RunRecord['status']): Promise<RunRecord> {
  const last = performance.now() + WAIT_MS;
  const { http } = JSON.parse(readFileSync(join(workspace, node, 'endpoint.json'), 'utf8')) as { http: string };
  const authorization = `Bearer ${readFileSync(join(workspace, node, 'admin.token'), 'utf8').trim()}`;
  while (performance.now() < last) {
    const answer = await fetch(`${http}/v1/namespaces/default/runs/${id}`, { headers: { authorization } });
    const run = (await answer.json()) as RunRecord;
    if (run.status === status) return run;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  throw new Error(`the run is not ${status} after ${WAIT_MS / 1000} s`);
}

function paid(): readonly { readonly run: string }[] {
  if (!existsSync(ledger)) return [];
  const lines = readFileSync(ledger, 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as { run: string });
}

function title(text: string): void {
  console.log(`\n${text}\n${'─'.repeat(text.length)}`);
}

function say(text: string): void {
  console.log(`  ${text}`);
}

function show(name: string, args: readonly string[]): void {
  console.log(`$ npx ${name} ${args.join(' ')}`.replaceAll(workspace, '$TMP'));
}
