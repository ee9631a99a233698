import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openSqliteStore } from '../../src/server/store/sqlite-store.ts';
import { root, type Serving, Stage } from '../demo-stage.ts';
import {
  AUDIT_KEY,
  anonymous,
  keepData,
  RecordedNode,
  recordEndedRuns,
  recordOpenRuns,
  writeNodeConfig,
} from './recorded-node.ts';

/** Open approvals do not expire before this date, whenever a test is run. */
const NEVER_MS = Date.UTC(2100, 0, 1);
const SHORT_GRANT_MS = 1_000;
const LOOK_MS = 50;

const servers = [
  {
    server_id: 'bank',
    transport: 'stdio',
    stdio: { command: 'compat-bank' },
    allowed_tools: ['*'],
    approval_policy: { default: 'always' },
  },
  {
    server_id: 'tracker',
    display_name: 'Tracker',
    transport: 'streamable_http',
    http: { url: 'https://tracker.example/mcp', headers: { authorization: `\${ENV:MCP_TRACKER}` } },
    tool_prefix: 'issues',
    allowed_tools: ['list_*', 'get_*'],
    budgets: { max_concurrency: 2 },
  },
];
const profile = {
  name: 'review',
  description: 'reads issues',
  server_ids: ['tracker'],
  allowed_tools: { tracker: ['get_*'] },
  tool_denylist: ['delete_*'],
};

/** Writes `registry` and `node`: a registry with approvals in every state, and a node with the runs that they belong to. */
export async function writeRegistryAndNode(fixtures: string): Promise<void> {
  await Stage.open('compat', async (stage) => {
    const socket = (name: string) => `unix:${stage.path('registry/sockets', `${name}.sock`)}`;
    writeBank(stage);
    writeNodeConfig(stage.path('node'), '[audit]\nfile = "audit.jsonl"\nkey = "env:AUDIT_KEY"');
    const node = new RecordedNode(stage, 'node', ['--sms', socket('grpc')]);
    const spear = (...args: readonly string[]) =>
      stage.spear(args, { env: { SPEAR_SMS: socket('http') }, quiet: true });
    const approvals = () => (JSON.parse(spear('approvals', 'ls', '--status', 'all', '--json')) as Approvals).approvals;
    const requestOf = (run: string, status = 'waiting') =>
      approvals().find((one) => one.run === run && one.status === status)?.approval_id;
    const parkedPayer = async () => {
      const { id } = await node.run('payer', 'parked');
      return { id, request: requestOf(id) ?? '' };
    };

    let sms = await serveRegistry(stage, `[limits]\napproval_kept_grant_ms = ${SHORT_GRANT_MS}`);
    fillRegistry(stage, spear);
    await pinTool(stage, sms);
    await node.start();
    const expired = await parkedPayer();
    await node.kill();
    spear('approvals', 'allow', expired.request, '--reason', 'checked');
    while (requestOf(expired.id, 'expired') === undefined) await delay(LOOK_MS);
    await stage.end(sms.child, 'SIGTERM');

    sms = await serveRegistry(stage, '');
    await node.start();
    while (requestOf(expired.id) === undefined) await delay(LOOK_MS); // the run asks again
    await node.cancel(expired.id);
    await node.until(expired.id, 'cancelled');
    const used = await parkedPayer();
    spear('approvals', 'allow', used.request, '--token-file', stage.path('ann.token'));
    await node.until(used.id, 'succeeded');
    const denied = await parkedPayer();
    spear('approvals', 'deny', denied.request, '--reason', 'not this one');
    await node.until(denied.id, 'succeeded');
    await recordEndedRuns(node, 'queued');
    await parkedPayer();
    const granted = await parkedPayer();
    await recordOpenRuns(node);
    spear('approvals', 'allow', granted.request);
    await stage.end(sms.child, 'SIGTERM');

    await extendOpenApprovals(stage.path('registry/registry.db'));
    keepData(stage.path('registry'), join(fixtures, 'registry'));
    keepData(stage.path('node/data'), join(fixtures, 'node/data'));
    cpSync(stage.path('ann.token'), join(fixtures, 'registry/ann.token'));
    for (const file of ['config.toml', 'model.json', 'audit.jsonl']) {
      cpSync(stage.path('node', file), join(fixtures, 'node', file));
    }
    return 0;
  });
}

interface Approvals {
  readonly approvals: readonly { readonly approval_id: string; readonly run: string; readonly status: string }[];
}

function serveRegistry(stage: Stage, limits: string): Promise<Serving> {
  mkdirSync(stage.path('registry'), { recursive: true, mode: 0o700 });
  const config = stage.path('registry.toml');
  writeFileSync(config, `[audit]\nfile = "registry/audit.jsonl"\nkey = "env:AUDIT_KEY"\n\n${limits}\n`);
  const flags = ['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', 'registry/registry.db'];
  return stage.serve('spear-sms', [...flags, '--config', config], { ...anonymous, AUDIT_KEY });
}

/** Servers, a profile, tokens and the tasks of the node. */
function fillRegistry(stage: Stage, spear: (...args: readonly string[]) => string): void {
  const file = (name: string, value: object) => {
    writeFileSync(stage.path(name), JSON.stringify(value));
    return stage.path(name);
  };
  for (const server of servers) spear('servers', 'apply', file(`${server.server_id}.json`, server));
  spear('profiles', 'apply', file('review.json', profile));
  spear('tokens', 'create', 'ann', '--role', 'approver', '--description', 'approves payments', '--out', 'ann.token');
  spear('tokens', 'create', 'robot', '--role', 'submitter', '--namespace', 'other', '--out', 'robot.token');
  spear('tokens', 'revoke', 'robot');
  spear('tasks', 'apply', stage.path('node/tasks.d'));
}

async function pinTool(stage: Stage, { says }: Serving): Promise<void> {
  const definition = { name: 'get_issue', description: 'Gives an issue.', inputSchema: { type: 'object' } };
  const token = readFileSync(stage.path('registry/admin.token'), 'utf8').trim();
  const answer = await fetch(`${says.http}/admin/api/mcp/servers/tracker/pins`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ tools: { get_issue: definition } }),
  });
  if (!answer.ok) throw new Error(`no pin: ${answer.status} ${await answer.text()}`);
}

/** The bank is found on the PATH, so that no path of this machine is in the registry. */
function writeBank(stage: Stage): void {
  mkdirSync(stage.path('bin'));
  const server = join(root, 'fixtures/mcp-servers/payments.mjs');
  const script = `#!/bin/sh\nLEDGER='${stage.path('ledger.jsonl')}' exec '${process.execPath}' '${server}'\n`;
  writeFileSync(stage.path('bin/compat-bank'), script, { mode: 0o755 });
}

async function extendOpenApprovals(path: string): Promise<void> {
  const store = openSqliteStore(path);
  const { records } = await store.approvals.list();
  for (const approval of records) {
    if (approval.status !== 'waiting' && approval.status !== 'granted') continue;
    await store.approvals.upsert({ ...approval, expires_at_ms: NEVER_MS });
  }
  await store.close();
}
