import { afterEach, describe, expect, it } from 'vitest';
import {
  type ApprovalRequest,
  type AuditEvent,
  ConfigError,
  McpConnectionError,
  type McpLogEntry,
  type McpOptions,
  openMcp,
  type RunOptions,
  runGuest,
  ToolEvents,
  type Waiting,
} from '../../src/index.ts';
import { startTestSms, stopAll } from '../registry/running-sms.ts';
import { collector, fixture, folder, tiny, withTiny } from './fixtures.ts';

afterEach(stopAll);

const record = {
  server_id: 'tiny',
  transport: 'stdio',
  stdio: { command: process.execPath, args: [fixture('mcp-servers/tiny.mjs')] },
  allowed_tools: ['*'],
};

/** A guest that calls `echo` of the server itself. */
async function echo(options: Partial<RunOptions>) {
  const said = collector();
  const args = ['mcp', 'tiny', 'echo', '{"message":"hi"}'];
  const result = await runGuest({ wasm: fixture('c/mcp.wasm'), args, output: said.output, ...options });
  return { ...result, stdout: said.text(), stderr: said.text('stderr') };
}

const open = (options: Omit<McpOptions, 'task'> & Partial<McpOptions>) =>
  openMcp({ task: withTiny, stateDir: folder(), ...options });

describe('openMcp', () => {
  it('takes servers, a directory of records, or an SMS [library.mcp]', async () => {
    const sms = await startTestSms();
    expect((await sms.http('POST', '/admin/api/mcp/servers', { json: record })).status).toBe(201);
    const sources = [
      { servers: [tiny()] },
      { directory: folder({ 'tiny.json': record }) },
      { sms: { address: sms.sms.grpc, token: sms.nodeToken }, stdio: 'allow' as const },
    ];
    for (const source of sources) {
      await using mcp = await open(source);
      expect(mcp.effective.serverIds).toEqual(['tiny']);
      expect(await echo({ mcp })).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('1 calls, 0 failed') });
    }
  });

  it('serves several runs, each with its own name and its own approvals [library.mcp]', async () => {
    const asked: ApprovalRequest[] = [];
    const approve = (request: ApprovalRequest) => {
      asked.push(request);
      return 'allow_session' as const;
    };
    await using mcp = await open({ servers: [tiny({ approval: 'always' })] });
    const runs = await Promise.all([echo({ mcp, approve, run: 'one' }), echo({ mcp, approve, run: 'two' })]);
    expect(runs.map(({ exitCode }) => exitCode)).toEqual([0, 0]);
    expect(asked.map(({ run, task }) => [run, task]).sort()).toEqual([
      ['one', 'library'],
      ['two', 'library'],
    ]);
    expect((await echo({ mcp })).stdout).toContain('no approver is available');
    await mcp.close();
    await expect(echo({ mcp })).rejects.toThrow('already closed');
  });

  it('tells the trail, the events and the log [library.mcp]', async () => {
    const trail: AuditEvent[] = [];
    const events = new ToolEvents();
    const invoked: string[] = [];
    events.subscribe(({ tool, outcome }) => invoked.push(`${tool} ${outcome}`));
    const log: McpLogEntry[] = [];
    await using mcp = await open({ servers: [tiny()], log: (entry) => void log.push(entry) });
    await echo({ mcp, events, run: 'r', audit: { write: (_run, event) => void trail.push(event) } });
    expect(trail.map(({ event }) => event)).toEqual([
      'registry.applied',
      'guest.started',
      'tool_call.started',
      'tool_call.finished',
      'guest.ended',
    ]);
    expect(invoked).toEqual(['echo ok']);
    expect(log.map(({ event }) => event)).toContain('connected');
  });

  it('has rules of the node and of the task [library.mcp]', async () => {
    const rules = [{ tools: ['echo'], verdict: 'deny' }];
    await using byNode = await open({ servers: [tiny()], approvalRules: rules });
    expect((await echo({ mcp: byNode })).stdout).toContain('echo is denied by');
    const task = { config: { ...withTiny.config, 'mcp.tool_denylist': ['echo'] } };
    await using byTask = await open({ servers: [tiny()], task });
    expect((await echo({ mcp: byTask })).stdout).toContain('mcp_policy_denied');
  });
});

it('tells what is waited for, and when that is over [library.mcp]', async () => {
  const told: string[] = [];
  const waiting: Waiting = ({ what }) => {
    told.push(what);
    return () => void told.push(`over: ${what}`);
  };
  await using mcp = await open({ servers: [tiny()], waiting });
  await echo({ mcp });
  expect(told).toContain('tool "echo" of server "tiny"');
  for (const what of told.filter((text) => !text.startsWith('over: '))) expect(told).toContain(`over: ${what}`);
});

describe('openMcp throws', () => {
  it.each<[string, object, string]>([
    ['an unknown key', { servers: [], dir: 'x' }, 'openMcp: unknown key "dir", did you mean "directory"?'],
    ['two sources', { servers: [], directory: 'x' }, 'servers and directory: server definitions come from one of them'],
    ['no source', {}, 'no registry is configured: set directory or sms'],
    ['a directory that is not there', { directory: '/no/such' }, 'directory /no/such: '],
    [
      'an SMS that is not there',
      { sms: { address: '127.0.0.1:1', token: 't' }, firstSnapshotMs: 300 },
      'sms: the registry is unreachable: ',
    ],
    ['an SMS that has no address', { sms: { address: 'ftp://x' } }, 'sms: expected HOST:PORT'],
    ['rules', { servers: [], approvalRules: [{ verdict: 'perhaps' }] }, 'approvalRules[0].verdict: must be'],
    ['a task without MCP', { servers: [], task: {} }, 'task: MCP is off: set "mcp.enabled"'],
    [
      'a key of the task',
      { servers: [], task: { config: { 'mcp.enable': 'true' } } },
      'task: config.mcp.enable: is not',
    ],
    [
      'a task that is not there',
      { servers: [], task: '/no/task.json' },
      '/no/task.json: the task config cannot be read',
    ],
    ['disabledTools', { servers: [tiny({ disabledTools: ['x'] })] }, '"mcp.tool_denylist" in the task config'],
  ])('for %s [library.mcp] [library.strict]', async (_, options, message) => {
    await expect(open(options)).rejects.toThrow(ConfigError);
    await expect(open(options)).rejects.toThrow(message);
  });

  it('for a server that is wrong [library.mcp]', async () => {
    await expect(open({ servers: [tiny({ name: 'not a name' })] })).rejects.toThrow(McpConnectionError);
    await expect(open({ servers: [{ ...tiny(), timeout: 5 } as never] })).rejects.toThrow('did you mean "timeoutMs"?');
  });

  it('for a wrong file where it is strict, and says so where it is not [library.mcp]', async () => {
    const directory = folder({ 'tiny.json': record, 'bad.json': '{' });
    await expect(open({ directory, strict: true })).rejects.toThrow(`${directory}/bad.json`);
    const notices: string[] = [];
    await using mcp = await open({ directory, onNotice: (text) => void notices.push(text) });
    expect(mcp.effective.serverIds).toEqual(['tiny']);
    expect(notices).toEqual([expect.stringContaining(`${directory}/bad.json`)]);
  });

  it('not for a registry that need not be there [library.mcp]', async () => {
    const notices: string[] = [];
    const sms = { address: '127.0.0.1:1', token: 't' };
    await using mcp = await open({
      sms,
      required: false,
      firstSnapshotMs: 300,
      onNotice: (text) => void notices.push(text),
    });
    expect(notices).toEqual([
      expect.stringContaining('http://127.0.0.1:1 is not authenticated'),
      expect.stringContaining('MCP is unavailable until it responds'),
    ]);
    expect((await echo({ mcp })).stderr).toContain('cannot open tiny');
  });
});
