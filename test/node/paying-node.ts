import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { RunRecord } from '../../src/server/records/run.ts';
import { type Listed, listed } from '../agent/approvals/asking-node.ts';
import { onStop, startTestSms, type TestSms, temporaryDirectory } from '../registry/running-sms.ts';
import { NodeLives } from '../torture/node/node-life.ts';

const fixture = (path: string) => fileURLToPath(new URL(`../../fixtures/${path}`, import.meta.url));
/** Between two looks. */
const PAUSE_MS = 20;
const RUNS = '/v1/namespaces/default/runs';

export interface Payment {
  readonly invoice: string;
  readonly run: string;
  readonly ordinal: string;
}

/** A registry, a node that follows it, and a task whose model pays an invoice if a user approves. */
export interface PayingNode {
  readonly sms: TestSms;
  readonly node: NodeLives;
  submit(task?: string): Promise<RunRecord>;
  get(id: string): Promise<RunRecord>;
  /** Waits for one of these statuses. */
  until(id: string, ...statuses: readonly string[]): Promise<RunRecord>;
  result(id: string): Promise<string>;
  /** Whether the bank pays without a word. */
  silence(isSilent: boolean): void;
  /** Of one run. */
  payments(id: string): readonly Payment[];
  /** Waits until the run has this many pending requests, and returns their ids. */
  asked(id: string, count?: number): Promise<readonly string[]>;
  /** Outcomes of the requests. */
  requests(id: string): Promise<readonly Listed[]>;
}

export async function payingNode(config: string): Promise<PayingNode> {
  const sms = await startTestSms();
  const folder = temporaryDirectory();
  const ledger = join(folder, 'ledger.jsonl');
  const record = {
    server_id: 'bank',
    transport: 'stdio',
    stdio: { command: process.execPath, args: [fixture('mcp-servers/payments.mjs')], env: { LEDGER: ledger } },
    allowed_tools: ['*'],
    approval_policy: { default: 'always' },
  };
  const { status, text } = await sms.http('POST', '/admin/api/mcp/servers', { json: record });
  if (status !== 201) throw new Error(text);
  writePayingFolder(folder, config);
  const registry = ['--sms', sms.sms.grpc, '--sms-token', sms.nodeToken];
  const node = new NodeLives(folder, [], ['--task-dir', join(folder, 'tasks.d'), ...registry]);
  onStop(() => node.kill());
  await node.start();
  const get = async (id: string) => JSON.parse((await node.ask('GET', `${RUNS}/${id}`)).text) as RunRecord;
  const requests = async (id: string) =>
    ((await listed(sms, '?limit=1000')) as readonly (Listed & { readonly run: string })[]).filter(
      ({ run }) => run === id,
    );
  return {
    ...{ sms, node, get, requests },
    submit: async (task = 'payer') =>
      JSON.parse((await node.ask('POST', `/v1/namespaces/default/tasks/${task}/runs`, { body: '' })).text) as RunRecord,
    async until(id, ...statuses) {
      for (;;) {
        const run = await get(id);
        if (statuses.includes(run.status)) return run;
        if (run.ended_at_ms !== null) throw new Error(`it ended: ${JSON.stringify(run)} ${node.log}`);
        await delay(PAUSE_MS);
      }
    },
    async asked(id, count = 1) {
      for (;;) {
        const open = (await requests(id)).filter((request) => request.status === 'waiting');
        if (open.length >= count) return open.map(({ approval_id }) => approval_id);
        await delay(PAUSE_MS);
      }
    },
    silence: (isSilent) =>
      isSilent ? writeFileSync(`${ledger}.silent`, '') : rmSync(`${ledger}.silent`, { force: true }),
    result: async (id) => (await node.ask('GET', `${RUNS}/${id}/result`)).text,
    payments: (id) =>
      existsSync(ledger)
        ? readFileSync(ledger, 'utf8')
            .trim()
            .split('\n')
            .map((line) => JSON.parse(line) as Payment)
            .filter(({ run }) => run === id)
        : [],
  };
}

function writePayingFolder(folder: string, config: string): void {
  mkdirSync(join(folder, 'tasks.d'), { recursive: true });
  const pay = (...ids: readonly string[]) => ({
    tool_calls: ids.map((id) => ({ id, name: 'bank_pay', arguments: { invoice: id, amount: 100 } })),
  });
  const turn = (when: object, reply: object) => ({ when, reply, repeat: true });
  const turns = [
    turn({ role: 'user', content: 'three' }, pay('a', 'b', 'c')),
    turn({ role: 'user' }, pay('one')),
    turn({ role: 'tool' }, { content: 'all settled' }),
  ];
  writeFileSync(join(folder, 'script.json'), JSON.stringify({ turns }));
  const parts = [
    '[backends.main]\nkind = "scripted"\nscript = "script.json"',
    '[mcp]\nstdio = "allow"',
    `[node]\nname = "n1"\n${config}`,
  ];
  writeFileSync(join(folder, 'config.toml'), parts.join('\n\n'));
  const task = (name: string, wasm: string, more = '') =>
    writeFileSync(
      join(folder, 'tasks.d', `${name}.toml`),
      `name = "${name}"\nwasm = ${JSON.stringify(fixture(wasm))}\n${more}`,
    );
  const mcp = '[config]\n"mcp.enabled" = true\n"mcp.default_server_ids" = ["bank"]\n';
  task('payer', 'c/files.wasm', mcp);
  task('three', 'c/files.wasm', `args = ["three"]\n${mcp}`);
  task('own-thread', 'c/files.wasm', `isolation = "thread"\n${mcp}`);
  task('sleeper', 'c/test/sleep.wasm', 'args = ["1500"]\n');
}
