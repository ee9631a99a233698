import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { main } from '../../../src/cli/spear/main.ts';
import { startTestSms, stopAll, type TestSms, temporaryDirectory } from '../../registry/running-sms.ts';

afterEach(async () => {
  vi.restoreAllMocks();
  await stopAll();
});

/** One command in this process, with what it wrote. */
async function tokens(sms: TestSms, argv: readonly string[], token = sms.adminToken) {
  const written = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) {
    vi.spyOn(process[stream], 'write').mockImplementation((text) => {
      written[stream] += text;
      return true;
    });
  }
  const code = await main(['tokens', ...argv, '--sms', `unix:${sms.config.files.httpSocket}`, '--token', token]);
  vi.restoreAllMocks();
  return { code, ...written };
}

it('spear tokens makes, shows, renews and revokes [people.tokens] [people.rotate]', async () => {
  const sms = await startTestSms();
  const made = await tokens(sms, [
    'create',
    'ci',
    '--role',
    'viewer',
    '--role',
    'approver',
    '--namespace',
    'team-a',
    '--expires',
    '90d',
  ]);
  expect(made).toEqual({
    code: 0,
    stdout: expect.stringMatching(/^spr_[0-9a-f]{72}\n$/),
    stderr: expect.stringContaining('created token ci'),
  });
  const text = made.stdout.trim();
  expect((await sms.http('GET', '/admin/api/me', { token: text })).body).toMatchObject({
    name: 'ci',
    namespace: 'team-a',
  });
  const renewed = await tokens(sms, ['rotate', 'ci', '--overlap', '2h']);
  expect(renewed.stdout).toMatch(/^spr_[0-9a-f]{72}\n$/);
  const ls = await tokens(sms, ['ls']);
  expect(ls.stdout).toMatch(/^NAME +ROLES +NAMESPACE +LAST USE +RENEWED +EXPIRES +CREATED BY +DESCRIPTION$/m);
  expect(ls.stdout).toMatch(
    /^ci +viewer,approver +team-a +\d+s ago +\d+s ago +in 89d \(old token in 1h\) +bootstrap-admin$/m,
  );
  expect(ls.stdout).not.toContain(text);
  const json = await tokens(sms, ['ls', '--json']);
  expect(JSON.parse(json.stdout)).toMatchObject({ tokens: [{ name: 'ci', roles: ['viewer', 'approver'] }] });
  const asCi = await tokens(sms, ['ls'], renewed.stdout.trim());
  expect([asCi.code, asCi.stderr]).toEqual([4, expect.stringContaining('the role of "ci" is viewer, approver')]);
  expect(await tokens(sms, ['revoke', 'ci'])).toEqual({ code: 0, stdout: 'ci revoked\n', stderr: '' });
  expect((await tokens(sms, ['revoke', 'ci'])).code).toBe(1);
});

it('puts a token into a file for its owner alone, and loses none [people.tokens]', async () => {
  const sms = await startTestSms();
  const file = join(temporaryDirectory(), 'ci.token');
  const made = await tokens(sms, ['create', 'ci', '--role', 'viewer', '-o', file]);
  expect([made.code, made.stdout]).toEqual([0, '']);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect((await sms.http('GET', '/admin/api/me', { token: readFileSync(file, 'utf8').trim() })).status).toBe(200);
  const lost = await tokens(sms, ['rotate', 'ci', '-o', join(file, 'below-a-file')]);
  expect(lost).toEqual({
    code: 1,
    stdout: expect.stringMatching(/^spr_/),
    stderr: expect.stringContaining('--out '),
  });
});

it('says what is wrong with a command', async () => {
  const sms = await startTestSms();
  const cases: readonly (readonly [readonly string[], string])[] = [
    [['create'], 'usage: spear tokens create NAME --role ROLE'],
    [['create', 'ci'], 'missing --role ROLE'],
    [['create', 'ci', '--role', 'root'], '--role: expected viewer, submitter'],
    [['create', 'ci', '--role', 'viewer', '--expires', 'tomorrow'], '--expires: expected a time like 90d'],
    [['rotate', 'ci', '--overlap', '-1h'], '--overlap'],
    [['revoke'], 'usage: spear tokens revoke NAME'],
    [['ls', 'ci'], 'unexpected argument "ci"'],
  ];
  for (const [argv, complaint] of cases) {
    const { code, stderr, stdout } = await tokens(sms, argv);
    expect([argv, code, stdout, stderr]).toEqual([argv, 2, '', expect.stringContaining(complaint)]);
  }
});
