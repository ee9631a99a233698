// Friday to Monday, on one machine and offline: an agent requests to pay an invoice, which needs an approval. The run is
// parked and its node is killed. On Monday Ann approves; a node resumes the run and pays once. Then a changed policy is
// tested on the recorded run. Flags are passed to the nodes: with a queue that two nodes can share (--queue …) the node
// of Monday is another one, with its own data.
import type { ChildProcess } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunRecord } from '../src/server/records/run.ts';
import { root, Stage } from './demo-stage.ts';

const WAIT_MS = 120_000;
const LOOK_MS = 50;
/** Exit code of `spear test` if a run differs. */
const DIFFERS = 1;

const nodeFlags = process.argv.slice(2);
/** With a shared queue each node has its own data; otherwise the second node uses the data of the first. */
const [friday, monday] = nodeFlags.includes('--queue') ? ['node-1', 'node-2'] : ['node', 'node'];

await Stage.open('friday', main);

async function main(stage: Stage): Promise<number> {
  const { workspace } = stage;
  const ledger = stage.path('ledger.jsonl');
  const smsSocket = (name: 'grpc' | 'http') => `unix:${stage.path('sms', 'sockets', `${name}.sock`)}`;
  const spear = (args: readonly string[], node: string, how: { quiet?: boolean; exit?: number } = {}) => {
    const SPEAR_NODE = `unix:${stage.path(node, 'sockets', 'http.sock')}`;
    return stage.spear(args, { ...how, env: { SPEAR_NODE, SPEAR_SMS: smsSocket('http') } });
  };
  const startNode = async (data: string): Promise<ChildProcess> => {
    const where = ['--data', data, '--listen', '127.0.0.1:0', '--config', 'config.toml', ...nodeFlags];
    const { child } = await stage.serve('spearlet', ['--task-dir', 'tasks.d', '--sms', smsSocket('grpc'), ...where]);
    return child;
  };
  const paid = () => paidIn(ledger);
  prepare(workspace, ledger);
  await stage.serve('spear-sms', [
    ...['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', 'sms/registry.db', '--mcp-registry-dir', 'mcp.d'],
  ]);
  spear(['tokens', 'create', 'ann', '--role', 'approver', '--out', 'ann.token'], friday);

  stage.title('Friday, 17:55: an agent requests to pay an invoice, which needs an approval');
  const first = await startNode(friday);
  const id = spear(['run', 'invoices', '--detach'], friday).trim();
  const parked = await until(stage, friday, id, 'parked');
  spear(['approvals', 'ls'], friday);
  stage.say(`The run is ${parked.status}: it uses no guest and no slot, only its journal and one database row.`);

  stage.title('Friday, 18:30: the node is killed');
  await stage.end(first, 'SIGKILL');
  stage.say(`kill -9 ${first.pid}; the ledger has ${paid().length} lines.`);

  stage.title('Monday, 9:00: Ann approves the payment while no node runs');
  const { parked_for: wanted } = parked;
  const request = wanted?.kind === 'approval' ? wanted.request : '';
  spear(['approvals', 'allow', request, '--token-file', 'ann.token', '--reason', 'checked'], friday);

  stage.title(`Monday, 9:01: ${friday === monday ? 'the node is started again' : 'another node is started'}`);
  await startNode(monday);
  const done = await until(stage, monday, id, 'succeeded');
  spear(['runs', 'result', id], monday);
  const lines = paid();
  const [paidOnce] = lines;
  stage.say(
    `The ledger has ${lines.length} line: invoice ${paidOnce?.invoice}, amount ${paidOnce?.amount}, ${paidOnce?.run}`,
  );
  spear(['approvals', 'ls', '--status', 'used'], monday);
  stage.say(`The run used ${done.attempts} of ${done.max_attempts} attempts: waiting for an approval uses none.`);

  stage.title('Tuesday: would the planned policy have allowed the payment?');
  mkdirSync(join(workspace, 'journals'));
  writeFileSync(join(workspace, 'journals', `${id}.journal`), spear(['runs', 'journal', id], monday, { quiet: true }));
  const judged = spear(['test', '--journals', 'journals', '--policy', 'tomorrow.json'], monday, { exit: DIFFERS });
  const isRefused = judged.includes('ACME is under review');
  const isRight = isRefused && lines.length === 1 && lines[0]?.run === id && done.attempts === 1;
  stage.say(isRight ? 'Paid once, and denied by the planned policy.' : 'Unexpected result.');
  return isRight ? 0 : 1;
}

function prepare(workspace: string, ledger: string): void {
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

async function until(stage: Stage, node: string, id: string, status: RunRecord['status']): Promise<RunRecord> {
  const last = performance.now() + WAIT_MS;
  const { http } = JSON.parse(readFileSync(stage.path(node, 'endpoint.json'), 'utf8')) as { http: string };
  const authorization = `Bearer ${readFileSync(stage.path(node, 'admin.token'), 'utf8').trim()}`;
  while (performance.now() < last) {
    const answer = await fetch(`${http}/v1/namespaces/default/runs/${id}`, { headers: { authorization } });
    const run = (await answer.json()) as RunRecord;
    if (run.status === status) return run;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  throw new Error(`the run is not ${status} after ${WAIT_MS / 1000} s`);
}

/** A line of the ledger; its `attempt` counts starts of the guest, resumes included, and is not shown. */
interface Payment {
  readonly invoice: string;
  readonly amount: number;
  readonly run: string;
}

function paidIn(ledger: string): readonly Payment[] {
  if (!existsSync(ledger)) return [];
  const lines = readFileSync(ledger, 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as Payment);
}
