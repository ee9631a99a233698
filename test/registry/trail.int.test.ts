import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { loadRegistryConfig } from '../../src/config/registry/registry-config.ts';
import { foldLimits } from '../../src/server/audit/fold.ts';
import { linesOf, verified } from '../server/audit/audit-samples.ts';
import { type ConfigChange, fsRecord, startTestSms, stopAll, type TestSms, temporaryDirectory } from './running-sms.ts';

afterEach(stopAll);

const servers = '/admin/api/mcp/servers';
const secret = 'ghp_0123456789abcdefghijABCDEFGHIJ456789';
const withSecret = {
  ...fsRecord,
  stdio: { ...fsRecord.stdio, env: { ...fsRecord.stdio.env, API_KEY: secret } },
};

/** Its trail after its end: only then all lines are there. */
async function trailOf(test: TestSms) {
  await test.sms.close();
  const file = test.config.audit?.file ?? '';
  expect(verified(file)).toMatchObject({ problem: null, chains: [{ ended: true }] });
  return linesOf(file).filter(({ event }) => !String(event).startsWith('chain.'));
}

const named = (lines: Awaited<ReturnType<typeof trailOf>>, event: string) =>
  lines.filter((line) => line.event === event);
const admin = { actor: 'bootstrap-admin', role: 'admin', namespace: '*', peer: '127.0.0.1', via: 'http' };

describe('the trail of a registry', () => {
  it('says who changed what, before and after, without secrets [audit.sms]', async () => {
    const test = await startTestSms();
    expect((await test.http('POST', servers, { json: withSecret })).status).toBe(201);
    const updated = { ...withSecret, allowed_tools: ['read_*', 'list_*'] };
    expect((await test.http('PUT', `${servers}/fs`, { json: updated })).status).toBe(200);
    expect((await test.http('PUT', `${servers}/fs`, { json: updated })).status).toBe(200);
    expect((await test.http('DELETE', `${servers}/fs`)).status).toBe(200);
    const lines = await trailOf(test);
    expect(lines[0]).toMatchObject({ event: 'sms.started', http: test.sms.http, auth: true, servers: 0 });
    expect(lines.at(-1)).toMatchObject({ event: 'sms.ended' });
    const path = `${servers}/{id}`;
    expect(named(lines, 'sms.record_changed')).toMatchObject([
      { ...admin, method: `POST ${servers}`, server_id: 'fs', action: 'create', revision: 1, before: null },
      {
        ...admin,
        method: `PUT ${path}`,
        action: 'update',
        revision: 2,
        fields: ['allowed_tools'],
        before: { allowed_tools: ['read_*'] },
        after: { allowed_tools: ['read_*', 'list_*'] },
      },
      { ...admin, method: `DELETE ${path}`, action: 'delete', revision: 3, after: null },
    ]);
    expect(named(lines, 'sms.served').map(({ code }) => code)).toEqual(['201', '200', '200', '200']);
    const text = readFileSync(test.config.audit?.file ?? '', 'utf8');
    expect(text).toContain('mcp-fs');
    for (const hidden of [secret, test.adminToken, test.nodeToken]) expect(text).not.toContain(hidden);
  });

  it('says what was refused, to whom and why [audit.sms]', async () => {
    const test = await startTestSms();
    await test.http('DELETE', `${servers}/fs`, { token: null });
    await test.http('DELETE', `${servers}/fs`, { token: test.nodeToken });
    await test.http('DELETE', `${servers}/fs`);
    await test.http('GET', `${servers}/fs`);
    await test.http('POST', servers, { json: { server_id: 'x' } });
    await test.http('PUT', `${servers}/fs`, { json: fsRecord, headers: { 'if-match': '"9"' } });
    await test
      .source('not-a-token-of-anybody')
      .list(AbortSignal.timeout(45_000))
      .catch(() => {});
    const refused = named(await trailOf(test), 'sms.refused');
    expect(refused.map(({ role, via, status, code, reason }) => [role, via, status, code, reason])).toEqual([
      [null, 'http', 'denied', '401', 'unauthorized'],
      ['node', 'http', 'denied', '403', 'not-permitted'],
      ['admin', 'http', 'failed', '404', 'no-such-server'],
      ['admin', 'http', 'failed', '400', 'invalid-record'],
      ['admin', 'http', 'failed', '412', 'revision-mismatch'],
      [null, 'grpc', 'denied', '16', 'Unauthenticated'],
    ]);
    expect(refused.at(-1)).toMatchObject({ method: 'ListMcpServers', peer: '127.0.0.1' });
  });

  it('counts refusals that somebody makes in number [audit.sms] [audit.folded]', async () => {
    const test = await startTestSms();
    const many = 3 * foldLimits.fullOfKind;
    for (let number = 0; number < many; number++) await test.http('GET', servers, { token: 'guess' });
    const lines = await trailOf(test);
    expect(named(lines, 'sms.refused')).toHaveLength(foldLimits.fullOfKind);
    expect(named(lines, 'events.folded')).toMatchObject([
      { of: 'sms.refused', peer: '127.0.0.1', reason: 'unauthorized', count: many - foldLimits.fullOfKind },
    ]);
  });

  it('has imports and reloads, record by record, with the job of the process that made them [audit.sms]', async () => {
    const registryDir = temporaryDirectory();
    writeFileSync(join(registryDir, 'a.json'), JSON.stringify({ ...fsRecord, server_id: 'a' }));
    const test = await startTestSms({ registryDir });
    writeFileSync(join(registryDir, 'b.json'), JSON.stringify({ ...fsRecord, server_id: 'b' }));
    await test.sms.reload();
    const json = [1, 2].map((number) => ({ ...fsRecord, server_id: `imported-${number}` }));
    const planned = await test.http('POST', `${servers}/import`, { json });
    expect((await test.http('POST', `${servers}/import?apply=${planned.body.plan}`, { json })).status).toBe(200);
    const lines = await trailOf(test);
    expect(
      named(lines, 'sms.record_changed').map(({ server_id, action, via, method }) => [server_id, action, via, method]),
    ).toEqual([
      ['a', 'create', 'process', 'start'],
      ['b', 'create', 'process', 'reload'],
      ['imported-1', 'create', 'http', `POST ${servers}/import`],
      ['imported-2', 'create', 'http', `POST ${servers}/import`],
    ]);
    expect(named(lines, 'sms.reloaded').map(({ status, changes }) => [status, changes])).toEqual([
      ['applied', 1],
      ['applied', 1],
    ]);
  });

  it('is beside the data, for its owner alone, unless the config says otherwise [audit.sms]', async () => {
    const test = await startTestSms();
    const { file } = test.config.audit ?? { file: '' };
    expect(file).toBe(join(dirname(test.config.files.data), 'audit.jsonl'));
    expect(statSync(file).mode & 0o777).toBe(0o600);

    const folder = temporaryDirectory();
    const config = join(folder, 'sms.toml');
    const load = (text: string) => {
      writeFileSync(config, text);
      return loadRegistryConfig({ flags: { config, data: join(folder, 'registry.db') }, env: {} }).audit;
    };
    expect(load('[audit]\nfile = "own.jsonl"\nkeep = 3\non_failure = "refuse"\n')).toMatchObject({
      file: join(folder, 'own.jsonl'),
      keep: 3,
      onFailure: 'refuse',
    });
    expect(load('[audit]\nenabled = false\n')).toBeNull();
    expect(() => load('[audit]\nargs = "none"\n')).toThrow(/audit: unknown key "args"/);
  });
});

describe.runIf(process.platform === 'linux')('a registry whose trail cannot be written', () => {
  const onFullDisk = async (onFailure: 'continue' | 'refuse') => {
    const base = await startTestSms();
    if (base.config.audit === null) throw new Error('there is no trail');
    const audit: ConfigChange['audit'] = { ...base.config.audit, file: '/dev/full', onFailure };
    return startTestSms({ audit });
  };

  it('says so and goes on [audit.sms]', async () => {
    const test = await onFullDisk('continue');
    expect((await test.http('POST', servers, { json: fsRecord })).status).toBe(201);
    await test.sms.close();
    expect(test.logged).toContainEqual(
      expect.stringContaining('error audit_failed {"file":"/dev/full","code":"ENOSPC"}'),
    );
  });

  it('changes nothing where it is told to refuse, and is read on [audit.sms] [audit.refuse]', async () => {
    const test = await onFullDisk('refuse');
    const refused = await test.http('POST', servers, { json: fsRecord });
    expect([refused.status, refused.body.detail]).toEqual([
      507,
      expect.stringContaining('the audit log cannot be written'),
    ]);
    const listed = await test.http('GET', servers);
    expect([listed.status, listed.body.servers]).toEqual([200, []]);
  });
});

it('has the line before the change, where it is told to refuse [audit.sms] [audit.refuse]', async () => {
  const base = await startTestSms();
  const file = join(temporaryDirectory(), 'audit.jsonl');
  const audit: ConfigChange['audit'] = base.config.audit && { ...base.config.audit, file, onFailure: 'refuse' };
  const test = await startTestSms({ audit });
  await test.http('POST', servers, { json: fsRecord });
  const changes = (await trailOf(test)).filter(({ event }) => /write_started|record_changed/.test(String(event)));
  expect(changes).toMatchObject([
    { event: 'sms.write_started', servers: ['fs'], changes: 1, ...admin },
    { event: 'sms.record_changed', server_id: 'fs' },
  ]);
});
