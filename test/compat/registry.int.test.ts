import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, it } from 'vitest';
import { approvalStatuses } from '../../src/server/records/approval.ts';
import { restoreSqliteStore } from '../../src/server/store/sqlite-backup.ts';
import { openSqliteStore } from '../../src/server/store/sqlite-store.ts';
import { type Listed, listed } from '../agent/approvals/asking-node.ts';
import { startTestSms, stopAll } from '../registry/running-sms.ts';
import { copiedFixture } from './copied-fixture.ts';

afterEach(stopAll);

/** Longer than any fixture is old, so that no closed approval is removed. */
const KEEP_MS = 200 * 366 * 24 * 3_600_000;

const earlierServers = [
  {
    server_id: 'sums',
    display_name: 'Sums',
    stdio: { command: 'sums', args: ['--verbose'], env: { TOKEN: `\${ENV:MCP_TOKEN}` } },
    allowed_tools: ['*'],
    approval_policy: { default: 'never' },
    mod_revision: 1,
  },
  {
    server_id: 'tracker',
    http: { url: 'https://tracker.example/mcp', headers: { Authorization: `\${ENV:MCP_TRACKER}` } },
    tool_prefix: 'issues',
    allowed_tools: ['list_*', 'get_*'],
    budgets: { max_concurrency: 2 },
    approval_policy: { default: 'always' },
    mod_revision: 3,
  },
];

describe('a registry of version 0.2.0', () => {
  it('is opened with its servers, revisions and changes, and a copy is kept [compat.registry] [store.migration]', async () => {
    const path = join(copiedFixture('0.2.0'), 'registry.db');
    const store = openSqliteStore(path);
    const copy = new DatabaseSync(`${path}.format-1`, { readOnly: true });
    expect(copy.prepare('SELECT count(*) AS servers FROM servers').get()).toEqual({ servers: 2 });
    copy.close();
    expect(store.warnings).toEqual([]);
    const { revision, records } = await store.servers.list();
    expect(records).toMatchObject(earlierServers);
    expect(revision).toBe(4);
    const origins = await store.servers.origins();
    expect([origins.get('sums'), origins.get('tracker')]).toEqual(['directory:sums.json', 'api']);
    for await (const event of store.servers.watch(2, AbortSignal.timeout(5_000))) {
      expect(event).toMatchObject({ revision: 4, upserts: [{ server_id: 'tracker' }], deletes: ['gone'] });
      break;
    }
    await store.close();
  });

  it('is served with the tokens of that version, and changed [compat.registry]', async () => {
    const folder = copiedFixture('0.2.0');
    const token = (name: string) => readFileSync(join(folder, `${name}.token`), 'utf8').trim();
    const [admin, node] = [token('admin'), token('node')];
    const sms = await startTestSms({}, join(folder, 'registry.db'));
    expect([sms.adminToken, sms.nodeToken]).toEqual([admin, node]);
    const json = { ...earlierServers[0], server_id: 'new', transport: 'stdio', mod_revision: undefined };
    expect((await sms.http('POST', '/admin/api/mcp/servers', { json })).status).toBe(201);
    const { body } = await sms.http('GET', '/admin/api/mcp/servers');
    const ids = (body.servers as readonly { readonly server_id: string }[]).map(({ server_id }) => server_id);
    expect(ids).toEqual(['new', 'sums', 'tracker']);
  });

  it('is restored from a backup of that version [compat.registry]', async () => {
    const folder = copiedFixture('0.2.0');
    const path = join(folder, 'restored.db');
    await restoreSqliteStore(join(folder, 'backup.db'), path);
    const store = openSqliteStore(path);
    expect(store.warnings).toEqual([]);
    expect((await store.servers.list()).records).toMatchObject(earlierServers);
    await store.close();
  });
});

describe('a registry', () => {
  it('is opened with the records of every kind [compat.registry]', async () => {
    const store = openSqliteStore(join(copiedFixture('registry'), 'registry.db'));
    expect(store.warnings).toEqual([]);
    expect((await store.servers.list()).records).toMatchObject([
      { server_id: 'bank', stdio: { command: 'compat-bank' }, approval_policy: { default: 'always' } },
      { server_id: 'tracker', display_name: 'Tracker', tool_prefix: 'issues', budgets: { max_concurrency: 2 } },
    ]);
    expect((await store.profiles.list()).records).toMatchObject([
      {
        name: 'review',
        description: 'reads issues',
        server_ids: ['tracker'],
        allowed_tools: { tracker: ['get_*'] },
        tool_denylist: ['delete_*'],
      },
    ]);
    expect((await store.pins.list()).records).toMatchObject([
      { pin_id: 'tracker/get_issue', definition: { name: 'get_issue' }, pinned_by: 'bootstrap-admin' },
    ]);
    expect((await store.tokens.list()).records).toMatchObject([{ name: 'ann', roles: ['approver'], namespace: '*' }]);
    expect((await store.tokenUses.list()).records).toMatchObject([{ name: 'ann' }]);
    const tasks = ['echo', 'exit', 'hello', 'payer', 'sleep', 'spin'];
    expect((await store.tasks.list()).records).toMatchObject(tasks.map((name) => ({ live: { name, revision: 1 } })));
    expect((await store.taskRevisions.list()).records).toMatchObject(tasks.map((name) => ({ name, revision: 1 })));
    await store.close();
  });

  it('has approvals in every state [compat.registry]', async () => {
    const store = openSqliteStore(join(copiedFixture('registry'), 'registry.db'));
    const { records } = await store.approvals.list();
    expect(new Set(records.map(({ status }) => status))).toEqual(new Set(approvalStatuses));
    const of = (status: string) => records.find((approval) => approval.status === status);
    const call = {
      server_id: 'bank',
      tool_name: 'pay',
      arguments: { invoice: 'A-1', amount: 100 },
      task: 'default/payer',
    };
    for (const status of approvalStatuses) expect(of(status)).toMatchObject({ ...call, namespace: 'default' });
    expect(of('waiting')).toMatchObject({ votes: [], decision: null, decided_at_ms: null, claim: null });
    expect(of('granted')).toMatchObject({ decision: 'allow_once', claim: null });
    expect(of('denied')).toMatchObject({ decision: 'deny', reason: 'not this one' });
    expect(of('used')).toMatchObject({ decision: 'allow_once', votes: [{ by: 'ann' }], claim: expect.any(String) });
    expect(of('expired')).toMatchObject({ decision: 'allow_once', votes: [{ reason: 'checked' }] });
    expect(of('withdrawn')).toMatchObject({ decision: null });
    await store.close();
  });

  it('is served: a token of it decides about an approval of it [compat.registry]', async () => {
    const folder = copiedFixture('registry');
    const token = readFileSync(join(folder, 'ann.token'), 'utf8').trim();
    const sms = await startTestSms({ limit: { approval_keep_ms: KEEP_MS } }, join(folder, 'registry.db'));
    const approvals = await listed(sms, '?limit=100');
    expect(approvals.map(({ status }) => status).sort()).toEqual([...approvalStatuses].sort());
    const { approval_id: id } = approvals.find(({ status }) => status === 'waiting') as Listed;
    const json = { decision: 'allow_once', reason: null };
    const { status } = await sms.http('POST', `/admin/api/approvals/${id}/decision`, { json, token });
    expect(status).toBe(200);
    const decided = (await listed(sms, '?limit=100')).find((one) => one.approval_id === id);
    expect(decided).toMatchObject({ status: 'granted', decided_by: ['ann'] });
  });
});
