import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { fileWith, recordDir, recordOf, taskWith, taskWithMcp } from '../../agent/mcp/mcp-run.ts';
import { fixture, scratch } from '../../e2e/spear-run.ts';
import { startTestSms, stopAll } from '../../registry/running-sms.ts';
import { inEnoughTime } from '../../support/enough-time.ts';
import { runnable } from '../../support/small-modules.ts';
import { withoutTable } from '../../support/without-table.ts';
import { all, doctor, one } from './doctor-run.ts';

// Every command is a process of its own, and a busy machine starts those slowly.
vi.setConfig({ testTimeout: 120_000 });

afterEach(stopAll);

const chats = fixture('c/files.wasm');
const tiny = (fields: Readonly<Record<string, unknown>> = {}) =>
  recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs', fields) });
const lists = (mode: string, amount: number) =>
  recordDir({ 'slow.json': recordOf('slow', 'lists.mjs', { args: [mode, String(amount)] }) });

/** What is wrong, from the top of the tree. */
async function causes(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const diagnosis = await doctor([chats, '--no-model', ...args], env);
  expect(diagnosis.code).toBe(1);
  expect(diagnosis.ok).toBe(false);
  return diagnosis;
}

describe('1: MCP is not turned on for the session', () => {
  it('mcp.enabled is missing [doctor.causes]', async () => {
    const { findings } = await causes([...taskWith({ 'mcp.default_server_ids': ['tiny'] }), '--mcp-dir', tiny()]);
    expect(one(findings, 'task')).toMatchObject({ status: 'bad', cause: 'mcp_disabled' });
    expect(one(findings, 'task').fix).toContain('"mcp.enabled": true');
    expect(one(findings, 'registry').status).toBe('skipped');
  });

  it('there is no task config at all [doctor.causes]', async () => {
    const { findings } = await causes(['--mcp-dir', tiny()]);
    expect(one(findings, 'task')).toMatchObject({ status: 'bad', cause: 'mcp_disabled' });
  });

  it('no server ids are given [doctor.causes]', async () => {
    const { findings } = await causes([...taskWith({ 'mcp.enabled': true }), '--mcp-dir', tiny()]);
    expect(one(findings, 'task')).toMatchObject({ status: 'bad', cause: 'no_servers' });
    expect(one(findings, 'task').fix).toContain('mcp.default_server_ids');
  });

  it('the session turns it off itself [doctor.causes]', async () => {
    const flags = [...taskWithMcp(['tiny']), '--mcp-dir', tiny(), '--param', 'mcp.enabled=false'];
    const { findings } = await causes(flags);
    expect(one(findings, 'session_param')).toMatchObject({ status: 'bad', cause: 'mcp_disabled' });
  });
});

describe('2: the registry has no server', () => {
  it('the directory is empty, or has its records in a subdirectory [doctor.causes]', async () => {
    const dir = recordDir({ 'notes.txt': 'not a record' });
    mkdirSync(join(dir, 'deeper'));
    const { findings } = await causes([...taskWithMcp(['tiny']), '--mcp-dir', dir]);
    expect(one(findings, 'registry')).toMatchObject({ status: 'bad', cause: 'registry_empty' });
    expect(one(findings, 'registry').fix).toContain('file per server');
  });

  it('an SMS was started without its directory [doctor.causes]', async () => {
    const sms = await startTestSms();
    const flags = [...taskWithMcp(['tiny']), '--sms', sms.sms.grpc, '--sms-token', sms.nodeToken];
    const { findings } = await causes(flags);
    expect(one(findings, 'registry')).toMatchObject({ status: 'bad', cause: 'registry_empty' });
    expect(one(findings, 'registry').fix).toContain('--mcp-registry-dir');
  });
});

describe('3: there is no copy of the registry', () => {
  const waitsLittle = () => ['--config', fileWith('host.toml', '[mcp]\nfirst_snapshot_ms = 1500\n')];
  const registryAt = (address: string, ...flags: readonly string[]) =>
    causes([...taskWithMcp(['tiny']), ...waitsLittle(), '--sms', address, ...flags]);

  it('nobody listens there [doctor.causes]', async () => {
    const { findings } = await registryAt('127.0.0.1:1', '--sms-token', 'x');
    expect(one(findings, 'registry')).toMatchObject({ status: 'bad', cause: 'registry_unreachable' });
    expect(one(findings, 'registry').text).toContain('127.0.0.1:1');
    expect(one(findings, 'server').status).toBe('skipped');
  });

  it('what listens there is no registry [doctor.causes]', async () => {
    const other = createServer((_, res) => res.end('hello'));
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    const { findings } = await registryAt(`127.0.0.1:${port}`, '--sms-token', 'x');
    other.closeAllConnections();
    other.close();
    expect(one(findings, 'registry')).toMatchObject({ status: 'bad', cause: 'registry_unreachable' });
  });

  it('the address is that of its HTTP side, or it was killed [doctor.causes]', async () => {
    const sms = await startTestSms();
    const http = sms.sms.http.replace('http://', '');
    const wrong = await registryAt(http, '--sms-token', sms.nodeToken);
    expect(one(wrong.findings, 'registry').fix).toContain('not the HTTP address');
    await sms.sms.close();
    const socket = `unix:${sms.config.files.grpcSocket}`;
    const gone = await registryAt(socket);
    expect(one(gone.findings, 'registry').fix).toContain('start it with spear-sms');
  });

  it('it does not take the token, which is never shown [doctor.causes]', async () => {
    const sms = await startTestSms();
    const { findings, text } = await registryAt(sms.sms.grpc, '--sms-token', 'canary-token');
    expect(one(findings, 'registry')).toMatchObject({ status: 'bad', cause: 'registry_unreachable' });
    expect(one(findings, 'registry').fix).toContain('the registry does not accept the token');
    expect(text).not.toContain('canary-token');
  });

  it('none is named, or the directory does not exist [doctor.causes]', async () => {
    const none = await causes(taskWithMcp(['tiny']));
    expect(one(none.findings, 'registry')).toMatchObject({ status: 'bad', cause: 'no_registry' });
    const missing = await causes([...taskWithMcp(['tiny']), '--mcp-dir', join(scratch, 'nowhere')]);
    expect(one(missing.findings, 'registry')).toMatchObject({ status: 'bad', cause: 'registry_unreachable' });
  });
});

it('3: the server id is not that of the registry [doctor.causes]', async () => {
  const { findings } = await causes([...taskWithMcp(['tyni']), '--mcp-dir', tiny()]);
  expect(one(findings, 'server')).toMatchObject({ status: 'bad', cause: 'unknown_server' });
  expect(one(findings, 'server').text).toContain('did you mean "tiny"?');
});

it('the server’s file is wrong, so the registry does not have it [doctor.causes]', async () => {
  const dir = recordDir({
    'tiny.json': recordOf('tiny', 'tiny.mjs'),
    'git.toml': 'server_id = "git"\ntransport = "carrier_pigeon"\n',
  });
  const { findings } = await causes([...taskWithMcp(['git']), '--mcp-dir', dir]);
  const [problem] = all(findings, 'record_file').filter(({ text }) => text.includes('transport'));
  expect(problem).toMatchObject({ status: 'bad', cause: 'bad_file' });
  expect(problem?.text).toContain(`${dir}/git.toml:2: transport `);
  expect(one(findings, 'server')).toMatchObject({ status: 'bad', cause: 'unknown_server', fix: null });
});

describe('4: the record forbids the tools', () => {
  it('allowed_tools is empty [doctor.causes]', async () => {
    const { findings } = await causes([...taskWithMcp(['tiny']), '--mcp-dir', tiny({ allowed_tools: [] })]);
    expect(one(findings, 'server')).toMatchObject({ status: 'bad', cause: 'deny_all' });
    expect(one(findings, 'server').fix).toContain('allowed_tools');
  });

  it('allowed_tools is too strict [doctor.causes]', async () => {
    const { findings } = await causes([
      ...taskWithMcp(['tiny']),
      '--mcp-dir',
      tiny({ allowed_tools: ['Echo', 'read_*'] }),
    ]);
    expect(one(findings, 'tools')).toMatchObject({ status: 'bad', cause: 'denied_by_registry' });
    expect(all(findings, 'tool').map(({ cause }) => cause)).toEqual(Array(5).fill('denied_by_registry'));
  });
});

describe('the server does not stay', () => {
  it.each([
    ['was killed', 'kill -9 $$', 'server_killed', /signal SIGKILL/, /out-of-memory killer/],
    [
      'was told to end',
      'kill -TERM $$',
      'server_killed',
      /signal SIGTERM/,
      /^"sh" was killed with SIGTERM: by an operator/,
    ],
    ['crashed', 'kill -SEGV $$', 'server_crashed', /signal SIGSEGV/, /spear servers test gone/],
    ['ended by itself', 'echo no config >&2; exit 3', 'server_exited', /exit code 3.*no config/, /see its stderr/],
  ])('it %s [doctor.causes]', async (_, script, cause, text, fix) => {
    const record = { server_id: 'gone', transport: 'stdio', stdio: { command: 'sh', args: ['-c', script] } };
    const dir = recordDir({ 'gone.json': { ...record, allowed_tools: ['*'] } });
    const { findings } = await causes([...taskWithMcp(['gone']), '--mcp-dir', dir]);
    expect(one(findings, 'connect')).toMatchObject({
      status: 'bad',
      cause,
      text: expect.stringMatching(text),
      fix: expect.stringMatching(fix),
    });
  });
});

describe('5: tools/list', () => {
  it('takes too long [doctor.causes]', async () => {
    const flags = [...taskWithMcp(['slow']), '--mcp-dir', lists('slow', 600_000)];
    await inEnoughTime(3_000, async (ms) => {
      const { findings } = await causes([...flags, '--timeout-ms', String(ms)]);
      expect(one(findings, 'connect').status).toBe('ok');
      expect(one(findings, 'tools_list')).toMatchObject({ status: 'bad', cause: 'list_timeout' });
      expect(one(findings, 'tools').status).toBe('skipped');
    });
  });

  it('fails [doctor.causes]', async () => {
    const { findings } = await causes([...taskWithMcp(['slow']), '--mcp-dir', lists('fails', 0)]);
    expect(one(findings, 'tools_list')).toMatchObject({ status: 'bad', cause: 'list_failed' });
    expect(one(findings, 'tools_list').text).toContain('the list is broken');
  });

  it('comes from a server that asks what its record does not permit [elicitation.off]', async () => {
    const record = recordOf('asker', 'questions.mjs', { env: { AT_START: 'roots/list' } });
    const flags = [...taskWithMcp(['asker']), '--mcp-dir', recordDir({ 'asker.json': record })];
    const { findings } = await doctor([chats, '--no-model', ...flags]);
    expect(one(findings, 'asked')).toMatchObject({ status: 'skipped' });
    expect(one(findings, 'asked').text).toContain('client_features.roots');
  });

  it('was killed meanwhile [doctor.causes]', async () => {
    const { findings } = await causes([...taskWithMcp(['slow']), '--mcp-dir', lists('killed', 0)]);
    expect(one(findings, 'connect').status).toBe('ok');
    expect(one(findings, 'tools_list')).toMatchObject({ status: 'bad', cause: 'server_killed' });
    expect(one(findings, 'tools_list').text).toContain('signal SIGKILL');
    expect(one(findings, 'tools_list').fix).toMatch(/OOMKilled.*more memory.*starts it again/);
  });

  it('gives no tools [doctor.causes]', async () => {
    const { findings } = await causes([...taskWithMcp(['slow']), '--mcp-dir', lists('wide', 0)]);
    expect(one(findings, 'tools')).toMatchObject({ status: 'bad', cause: 'no_tools' });
  });
});

describe('6: the task refuses', () => {
  it('the guest turns MCP on where the task has it off [doctor.causes]', async () => {
    const flags = [...taskWith({ 'mcp.enabled': false }), '--mcp-dir', tiny(), '--param', 'mcp.enabled=true'];
    const { findings } = await causes(flags);
    expect(one(findings, 'task')).toMatchObject({ status: 'bad', cause: 'mcp_disabled' });
    expect(one(findings, 'session_param').text).toContain('rejected with EACCES');
  });

  it('the guest asks for a server beyond the allowed set [doctor.causes]', async () => {
    const flags = [...taskWithMcp(['tiny']), '--mcp-dir', tiny(), '--param', 'mcp.server_ids=["tiny","git"]'];
    const { findings } = await causes(flags);
    expect(one(findings, 'session_param')).toMatchObject({ status: 'bad', cause: 'not_allowed' });
    expect(one(findings, 'session_param').text).toContain('EACCES');
    expect(one(findings, 'session_param').fix).toContain('mcp.allowed_server_ids');
  });

  it('its tool lists leave nothing [doctor.causes]', async () => {
    const task = taskWithMcp(['tiny'], { 'mcp.tool_denylist': ['*'] });
    const { findings } = await causes([...task, '--mcp-dir', tiny()]);
    expect(one(findings, 'tools')).toMatchObject({ status: 'bad', cause: 'denied_by_task' });
    expect(one(findings, 'tools').fix).toContain('"*"');
  });
});

it('7: the server says EPIPE because its list came too late [doctor.causes]', async () => {
  // This host reads to the end, so nothing breaks here; the server reports what others have seen of theirs.
  const late = fileWith(
    'late.mjs',
    `import { serve } from ${JSON.stringify(fixture('mcp-servers/raw-rpc.mjs'))};
     process.on('SIGTERM', () => {});
     process.stderr.write('Error: write EPIPE\\n');
     serve({}, { 'tools/list': () => new Promise(() => {}) });`,
  );
  const record = { ...recordOf('late', 'tiny.mjs'), stdio: { command: process.execPath, args: [late] } };
  const flags = [...taskWithMcp(['late']), '--mcp-dir', recordDir({ 'late.json': record })];
  await inEnoughTime(3_000, async (ms) => {
    const { findings } = await causes([...flags, '--timeout-ms', String(ms)]);
    expect(one(findings, 'tools_list')).toMatchObject({ status: 'bad', cause: 'list_timeout' });
    expect(one(findings, 'tools_list').fix).toMatch(/EPIPE that the server then reports is a consequence/);
    expect(one(findings, 'stderr').text).toBe('stderr: Error: write EPIPE');
  });
});

describe('the module cannot do its work', () => {
  const written = (bytes: Uint8Array) => {
    const file = join(scratch, 'guest.wasm');
    writeFileSync(file, bytes);
    return file;
  };

  it('its tools cannot be called: no table is exported [doctor.causes] [tool.unreachable]', async () => {
    const wasm = written(withoutTable(readFileSync(fixture('c/sum.wasm'))));
    const { code, findings } = await doctor([wasm, '--no-model']);
    expect(code).toBe(1);
    expect(one(findings, 'guest_tools')).toMatchObject({ status: 'bad', cause: 'no_function_table' });
    expect(one(findings, 'guest_tools').fix).toContain('-Wl,--export-table');
  });

  it('it is what a component is made of [doctor.causes]', async () => {
    const wasm = written(runnable((module) => module.importFunction('spear:host/log@1.0.0', 'log', ['i32'])));
    const { code, findings } = await doctor([wasm, '--no-model']);
    expect(code).toBe(1);
    expect(one(findings, 'module')).toMatchObject({ status: 'bad', cause: 'component_parts' });
    expect(one(findings, 'module').fix).toContain('spear componentize');
  });
});

describe('the guest takes another way than the tool loop', () => {
  it('it neither chats nor calls MCP [doctor.causes]', async () => {
    const hello = fixture('c/hello.wasm');
    const { code, findings } = await doctor([hello, ...taskWithMcp(['tiny']), '--mcp-dir', tiny(), '--no-model']);
    expect(code).toBe(1);
    expect(one(findings, 'tool_use')).toMatchObject({ status: 'bad', cause: 'no_tool_use' });
  });

  it('a plain send has no tools, which is said of every guest that chats [doctor.causes]', async () => {
    const { code, findings } = await doctor([chats, ...taskWithMcp(['tiny']), '--mcp-dir', tiny(), '--offline']);
    expect(code).toBe(0);
    expect(one(findings, 'tool_use').text).toContain('AUTO_TOOL_CALL');
    expect(one(findings, 'tool_use').fix).toContain('flags of cchat_send');
  });
});
