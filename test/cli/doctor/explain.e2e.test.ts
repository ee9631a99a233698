import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Finding } from '../../../src/cli/doctor/finding.ts';
import { fileWith, recordDir, recordOf, taskWith, taskWithMcp } from '../../agent/mcp/mcp-run.ts';
import { fixture, scratch } from '../../e2e/spear-run.ts';
import { startTestSms, stopAll } from '../../registry/running-sms.ts';
import { all, one, spear } from './doctor-run.ts';

// Every command is a process of its own, and a busy machine starts those slowly.
vi.setConfig({ testTimeout: 120_000 });

afterEach(stopAll);

const tiny = (fields: Readonly<Record<string, unknown>> = {}) => [
  '--mcp-dir',
  recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs', fields) }),
];

interface Explanation {
  readonly code: number | null;
  readonly callable: boolean;
  readonly findings: readonly Finding[];
}

async function explain(...args: string[]): Promise<Explanation> {
  const { code, stdout, stderr } = await spear(['explain', ...args, '--json']);
  expect(stderr).toBe('');
  return { code, ...(JSON.parse(stdout) as Omit<Explanation, 'code'>) };
}

const denials = (findings: readonly Finding[]) =>
  all(findings, 'layer')
    .filter(({ status }) => status === 'bad')
    .map(({ cause }) => cause);

/** A directory with a server, and profiles in its folder. */
function withProfiles(profiles: Readonly<Record<string, object>>): string[] {
  const [flag = '', directory = ''] = tiny();
  mkdirSync(join(directory, 'profiles'));
  for (const [name, fields] of Object.entries(profiles)) {
    writeFileSync(join(directory, 'profiles', `${name}.json`), JSON.stringify({ name, ...fields }));
  }
  return [flag, directory];
}

describe('spear explain of a task with a profile', () => {
  const task = (config: Readonly<Record<string, unknown>> = {}) =>
    taskWith({ 'mcp.enabled': true, 'mcp.profile': 'review', ...config });

  it('names the profile, and what in it lets the tool in [explain.layers] [policy.profile]', async () => {
    const dir = withProfiles({ review: { server_ids: ['tiny'], allowed_tools: { tiny: ['e*'] } } });
    const { code, stdout } = await spear(['explain', 'tiny', 'echo', ...task(), ...dir]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^✓ profile mcp\.profile: the registry has the profile "review"$/m);
    expect(stdout).toMatch(/^✓ profile server_ids, server_tags: the profile has "tiny"$/m);
    expect(stdout).toMatch(/^✓ profile allowed_tools: the profile allows "e\*" of this server$/m);
  });

  it.each<[string, Readonly<Record<string, object>>, Readonly<Record<string, unknown>>, string[]]>([
    ['is missing', { other: {} }, {}, ['unknown_profile']],
    ['has other servers', { review: { server_ids: ['git'] } }, {}, ['not_in_profile']],
    ['denies the tool', { review: { server_ids: ['tiny'], tool_denylist: ['echo'] } }, {}, ['denied_by_profile']],
    [
      'is narrowed by the task',
      { review: { server_ids: ['tiny'] } },
      { 'mcp.profile_overrides': { tool_allowlist: ['pid'] } },
      ['denied_by_task'],
    ],
  ])('says that the profile %s [explain.layers] [policy.profile]', async (_, profiles, config, expected) => {
    const found = await explain('tiny', 'echo', ...task(config), ...withProfiles(profiles));
    expect([found.code, found.callable, denials(found.findings)]).toEqual([1, false, expected]);
  });

  it('and of tags: a server without them [explain.layers] [policy.server_tags]', async () => {
    const tagged = (...tags: string[]) => [
      ...taskWith({ 'mcp.enabled': true, 'mcp.server_tags': tags }),
      ...tiny({ tags: ['scm'] }),
    ];
    expect(denials((await explain('tiny', 'echo', ...tagged('search'))).findings)).toEqual(['not_tagged']);
    expect((await explain('tiny', 'echo', ...tagged('search', 'scm'))).callable).toBe(true);
  });

  it('and of namespaces and pins, of which the server is asked [explain.layers] [policy.namespaces] [policy.pins]', async () => {
    const mine = taskWithMcp(['tiny']);
    const elsewhere = await explain('tiny', 'echo', ...mine, ...tiny({ namespaces: ['team-*'] }));
    expect(denials(elsewhere.findings)).toEqual(['not_in_namespace']);
    const pins = tiny({ pins: { echo: 'a'.repeat(64) } });
    expect((await explain('tiny', 'echo', ...mine, ...pins)).callable).toBe(true);
    const asked = await explain('tiny', 'echo', ...mine, ...pins, '--connect');
    expect([asked.callable, denials(asked.findings)]).toEqual([false, ['pin_mismatch']]);
  });

  it('spear doctor says that the profile is missing, once [policy.profile]', async () => {
    const wasm = fixture('c/mcp.wasm');
    const { code, stdout } = await spear([
      'doctor',
      wasm,
      ...task(),
      ...withProfiles({ revue: { server_ids: ['tiny'] } }),
      '--offline',
      '--json',
    ]);
    expect(code).toBe(1);
    const { findings } = JSON.parse(stdout) as { findings: Finding[] };
    const [server] = all(findings, 'server');
    expect(server).toMatchObject({ status: 'bad', cause: 'unknown_profile' });
    expect(server?.text).toContain('it has "revue"');
  });
});

describe('spear explain', () => {
  it('answers layer by layer, without starting the server [explain.layers]', async () => {
    const trail = join(scratch, `trail-${randomUUID()}`);
    const dir = recordDir({ 'l.json': recordOf('l', 'lists.mjs', { args: ['wide', '3'], env: { TRAIL: trail } }) });
    const task = taskWithMcp(['l'], { 'mcp.tool_allowlist': ['tool_*'] });
    const { code, stdout, stderr } = await spear(['explain', 'l', 'tool_1', ...task, '--mcp-dir', dir]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^✓ task mcp\.enabled: the task enables MCP$/m);
    expect(stdout).toMatch(/^✓ task mcp\.allowed_server_ids: the task allows "l"$/m);
    expect(stdout).toMatch(/^✓ session mcp\.server_ids: the session requests no servers: the default set applies$/m);
    expect(stdout).toMatch(/^✓ registry server_id: the registry has "l"$/m);
    expect(stdout).toMatch(/^✓ registry allowed_tools: the server allows "\*"$/m);
    expect(stdout).toMatch(/^✓ task mcp\.tool_allowlist: "tool_\*" matches$/m);
    expect(stdout).toMatch(/^✓ approval: not needed$/m);
    expect(stdout).toMatch(/^– budgets: tool_timeout_ms 8000, max_concurrency 8, max_tool_output_bytes 65536$/m);
    expect(stdout).toMatch(/^✓ the model sees it as mcp__bA__dG9vbF8x$/m);
    expect(stdout).toMatch(/\n\nthe task can call "tool_1" of "l"\n$/);
    expect(existsSync(trail)).toBe(false);
  });

  it.each<[string, string[], () => string[], string[]]>([
    [
      'the task has MCP off',
      ['tiny', 'echo'],
      () => [...taskWith({ 'mcp.default_server_ids': ['tiny'] }), ...tiny()],
      [],
    ],
    [
      'the task does not allow the server',
      ['git', 'log'],
      () => [...taskWithMcp(['tiny']), ...tiny()],
      ['not_allowed', 'not_requested', 'unknown_server'],
    ],
    ['the registry does not have it', ['git', 'log'], () => [...taskWithMcp(['git']), ...tiny()], ['unknown_server']],
    [
      'the server allows nothing',
      ['tiny', 'echo'],
      () => [...taskWithMcp(['tiny']), ...tiny({ allowed_tools: [] })],
      ['deny_all'],
    ],
    [
      'the record does not match',
      ['tiny', 'echo'],
      () => [...taskWithMcp(['tiny']), ...tiny({ allowed_tools: ['e'] })],
      ['denied_by_registry'],
    ],
    [
      'the task denies it',
      ['tiny', 'echo'],
      () => [...taskWithMcp(['tiny'], { 'mcp.tool_denylist': ['ec*'] }), ...tiny()],
      ['denied_by_task'],
    ],
    [
      'the session narrows',
      ['tiny', 'echo'],
      () => [...taskWithMcp(['tiny']), ...tiny(), '--param', 'mcp.tool_allowlist=["pid"]'],
      ['denied_by_session'],
    ],
    [
      'it is allowed and not asked for',
      ['tiny', 'echo'],
      () => [...taskWith({ 'mcp.enabled': true, 'mcp.allowed_server_ids': ['tiny'] }), ...tiny()],
      ['not_requested'],
    ],
  ])('says no where %s [explain.layers]', async (_, what, flags, reasons) => {
    const { code, callable, findings } = await explain(...what, ...flags());
    expect({ code, callable }).toEqual({ code: 1, callable: false });
    expect(denials(findings)).toEqual(reasons);
    for (const { fix } of all(findings, 'layer').filter(({ status }) => status === 'bad')) expect(fix).toBeTruthy();
  });

  it('says yes where the session asks for what is allowed, and what a guest may do by itself [explain.layers]', async () => {
    const task = taskWith({ 'mcp.enabled': true, 'mcp.allowed_server_ids': ['tiny'] });
    const asked = await explain('tiny', 'echo', ...task, ...tiny(), '--param', 'mcp.server_ids=["tiny"]');
    expect(asked).toMatchObject({ code: 0, callable: true });
    const silent = await explain('tiny', 'echo', ...task, ...tiny());
    expect(silent.callable).toBe(false);
    expect(one(silent.findings, 'explicit').text).toBe(
      'a guest that calls MCP itself (mcp_open, mcp_call_tool) can call it',
    );
  });

  it('knows the task’s own layers without any registry', async () => {
    const task = taskWithMcp(['tiny'], { 'mcp.tool_denylist': ['write_*'] });
    const yes = await spear(['explain', 'tiny', 'read', ...task]);
    expect(yes.code).toBe(0);
    expect(yes.stdout).toContain(
      'the task can call "read" of "tiny" (checked against the task only; no registry was given)',
    );
    const no = await explain('tiny', 'write_all', ...task);
    expect(no.code).toBe(1);
    expect(denials(no.findings)).toEqual(['denied_by_task']);
  });

  it('asks an SMS [explain.layers]', async () => {
    const sms = await startTestSms();
    const record = recordOf('tiny', 'tiny.mjs', { allowed_tools: ['e*'] });
    expect((await sms.http('POST', '/admin/api/mcp/servers', { json: record })).status).toBe(201);
    const flags = [...taskWithMcp(['tiny']), '--sms', sms.sms.grpc, '--sms-token', sms.nodeToken];
    expect(await explain('tiny', 'echo', ...flags)).toMatchObject({ code: 0 });
    expect(denials((await explain('tiny', 'pid', ...flags)).findings)).toEqual(['denied_by_registry']);
  });

  it('asks the server with --connect whether it has the tool', async () => {
    const flags = [...taskWithMcp(['tiny']), ...tiny(), '--connect'];
    const there = await explain('tiny', 'echo', ...flags);
    expect(there.code).toBe(0);
    expect(one(there.findings, 'tool').text).toBe('the server has the tool');
    const missing = await explain('tiny', 'ecoh', ...flags);
    expect(missing.code).toBe(1);
    expect(one(missing.findings, 'tool')).toMatchObject({ status: 'bad', cause: 'unknown_tool' });
    expect(one(missing.findings, 'tool').fix).toContain('echo');
  });

  it('tells of approvals and long names [explain.layers]', async () => {
    const approval = { default: 'never', per_tool: { 'e*': 'always' } };
    const flags = [...taskWithMcp(['tiny']), ...tiny({ approval_policy: approval })];
    const long = `e${'x'.repeat(80)}`;
    const { code, findings } = await explain('tiny', long, ...flags);
    expect(code).toBe(0);
    expect(one(findings, 'approval').text).toContain('every call needs an approval (approval_policy: always)');
    expect(one(findings, 'name').text).toMatch(/mcp__[A-Za-z0-9_-]{43} \(a hash: /);
  });

  it('answers for resources and prompts by --kind [explain.layers] [mcp.offers.policy]', async () => {
    const fields = { allowed_resources: ['notes://*'], allowed_prompts: ['poem'] };
    const config = {
      'mcp.enabled': true,
      'mcp.default_server_ids': ['tiny'],
      'mcp.resource_denylist': ['*/private/*'],
    };
    const flags = [...taskWith(config), ...tiny(fields)];
    const allowed = await spear(['explain', 'tiny', 'notes://a/b', '--kind', 'resource', ...flags]);
    expect(allowed.code).toBe(0);
    expect(allowed.stdout).toMatch(/^✓ registry allowed_resources: the server allows "notes:\/\/\*"$/m);
    expect(allowed.stdout).toContain('(mcp_open, mcp_read_resource) can read it');
    const denied = await explain('tiny', 'notes://private/x/private/y', '--kind', 'resource', ...flags);
    expect([denied.code, denials(denied.findings)]).toEqual([1, ['denied_by_task']]);
    const prompt = await explain('tiny', 'report', '--kind', 'prompt', ...flags);
    expect([prompt.code, denials(prompt.findings)]).toEqual([1, ['denied_by_registry']]);
  });

  const badKinds = (task: string) => [
    ['a', 'b', '--kind', 'bogus', '--task-config', task],
    ['a', 'b', '--kind', 'prompt', '--connect', '--task-config', task],
    ['a', 'a:/../b', '--kind', 'resource', '--task-config', task],
  ];

  it('exits with 2 for bad usage', async () => {
    const task = fileWith('task.json', {});
    for (const args of [
      [],
      ['fs'],
      ['fs', 'read'],
      ['a', 'b', 'c', '--task-config', task],
      ['a', 'b', '--bogus'],
      ...badKinds(task),
    ]) {
      const { code, stdout, stderr } = await spear(['explain', ...args]);
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: '' });
      expect(stderr).toMatch(/^spear: .+\n$/);
    }
    expect((await spear(['explain', '-h'])).stdout).toContain('spear explain SERVER NAME --task-config FILE');
  });
});
