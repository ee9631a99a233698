import { readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { npmServer, sandboxOf, fixture as serverFixture } from '../agent/mcp/client/pool-records.ts';
import { type Answer, startTestSms, stopAll, type TestSms } from '../registry/running-sms.ts';
import { Cli, fixture, scratch, spearRun } from './spear-run.ts';
import { type ModelRequest, SteeredModel } from './steered-model.ts';

const SEEN_MS = 45_000;

const model = { current: new SteeredModel() };

afterEach(async () => {
  await model.current.stop();
  model.current = new SteeredModel();
  await stopAll();
});

function task(...servers: string[]): string {
  const file = join(scratch, `task-${servers.join('-')}.json`);
  const config = { 'mcp.enabled': 'true', 'mcp.default_server_ids': JSON.stringify(servers) };
  writeFileSync(file, JSON.stringify({ config, args: ['go'] }));
  return file;
}

const notes = {
  server_id: 'notes',
  transport: 'stdio',
  stdio: {
    command: process.execPath,
    args: [npmServer('filesystem'), fixture('demo/notes')],
    cwd: fixture('demo/notes'),
  },
  sandbox: sandboxOf(fixture('demo/notes')),
  allowed_tools: ['*'],
};
const slow = {
  server_id: 'slow',
  transport: 'stdio',
  stdio: { command: process.execPath, args: [serverFixture('counting.mjs')] },
  sandbox: sandboxOf(),
  allowed_tools: ['*'],
  budgets: { tool_timeout_ms: 60_000 },
};

async function register(sms: TestSms, record: object): Promise<void> {
  const { status, text } = await sms.http('POST', '/admin/api/mcp/servers', { json: record });
  expect(status, text).toBe(201);
}

/** Resolves when a node has reported that it holds `revision`. */
function nodeHolds(sms: TestSms, revision: number): Promise<unknown> {
  return untilSeen(sms, '/admin/api/mcp/nodes', ({ snapshot_revision: held }) => Number(held) >= revision);
}

/** Resolves when a node has reported that it is connected to the server, and knows its tools. */
function nodeSees(sms: TestSms, server: string): Promise<Answer> {
  const path = `/admin/api/mcp/servers/${server}`;
  return untilSeen(sms, path, ({ health, tool_count }) => health === 'connected' && tool_count !== null);
}

/** Asks until one of the nodes in the answer is as wanted; says what they were if none ever is. */
async function untilSeen(sms: TestSms, path: string, wanted: (node: Answer) => boolean): Promise<Answer> {
  const end = performance.now() + SEEN_MS;
  for (;;) {
    const { body, text } = await sms.http('GET', path);
    const seen = (body.nodes as Answer[]).find(wanted);
    if (seen) return seen;
    if (performance.now() > end) throw new Error(`no node is as wanted: ${text}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The files guest, following the registry, with its model in the test's hands. */
async function runFiles(sms: TestSms, server: string, more: string[] = []): Promise<Cli> {
  const env = { OPENAI_BASE_URL: await model.current.start(), OPENAI_API_KEY: 'test-key', OPENAI_MODEL: 'steered' };
  const flags = ['--task-config', task(server), '--sms', sms.sms.grpc, '--sms-token', sms.nodeToken, ...more];
  return new Cli([fixture('c/files.wasm'), ...flags], { env }).listen();
}

const lastMessage = async () => {
  const request = await model.current.next();
  return { request, content: request.messages.at(-1)?.content ?? '' };
};

/** Lets the model list the notes again and again, until it gets no more of them. */
async function refused(first: ModelRequest) {
  let outcome = { request: first, content: 'risks.md' };
  while (outcome.content.includes('risks.md')) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    outcome.request.call('notes_list_directory', { path: '.' });
    outcome = await lastMessage();
  }
  return outcome;
}

describe('a run that follows a registry', () => {
  it('uses its servers and reports what it sees', async () => {
    const sms = await startTestSms();
    await register(sms, notes);
    const cli = await runFiles(sms, 'notes');
    const first = await model.current.next();
    expect(first.tools?.map((tool) => tool.function.name)).toContain('notes_read_text_file');
    first.call('notes_read_text_file', { path: 'risks.md' });
    const { request, content } = await lastMessage();
    expect(content).toContain('Firmware 2.1 is not signed yet');
    expect((await nodeSees(sms, 'notes')).tool_count).toBe(14);
    request.say('done');
    expect(await cli.finished()).toMatchObject({ code: 0, stdout: expect.stringContaining('done') });
  });

  it('refuses a server that was removed after its tools were injected [sms.node.revokes]', async () => {
    const sms = await startTestSms();
    await register(sms, notes);
    const cli = await runFiles(sms, 'notes');
    const first = await model.current.next();
    const removed = await sms.http('DELETE', '/admin/api/mcp/servers/notes');
    await nodeHolds(sms, Number(removed.body.revision));
    first.call('notes_read_text_file', { path: 'risks.md' });
    const { request, content } = await lastMessage();
    expect(JSON.parse(content)).toMatchObject({ error: { code: 'mcp_policy_denied' } });
    request.say('done');
    expect((await cli.finished()).code).toBe(0);
  });

  it('refuses a tool from the moment its record is narrowed [sms.node.revokes]', async () => {
    const sms = await startTestSms();
    await register(sms, notes);
    const cli = await runFiles(sms, 'notes');
    const first = await model.current.next();
    const narrowed = { ...notes, allowed_tools: ['list_*'] };
    const answer = await sms.http('PUT', '/admin/api/mcp/servers/notes', { json: narrowed });
    await nodeHolds(sms, Number(answer.body.mod_revision));
    first.call('notes_read_text_file', { path: 'risks.md' });
    const denied = await lastMessage();
    expect(JSON.parse(denied.content)).toMatchObject({ error: { code: 'mcp_policy_denied' } });
    denied.request.call('notes_list_directory', { path: '.' });
    const listed = await lastMessage();
    expect(listed.content).toContain('risks.md');
    listed.request.say('done');
    expect((await cli.finished()).code).toBe(0);
  });

  it('cancels a call in flight when its server is removed [sms.node.revokes]', async () => {
    const sms = await startTestSms();
    await register(sms, slow);
    const cli = await runFiles(sms, 'slow', ['--audit', join(scratch, 'cancel.jsonl')]);
    const first = await model.current.next();
    first.call('slow_work', { label: 'long', ms: 50_000 });
    await nodeSees(sms, 'slow');
    await sms.http('DELETE', '/admin/api/mcp/servers/slow');
    const { request, content } = await lastMessage();
    expect(JSON.parse(content)).toMatchObject({
      error: { code: expect.stringMatching(/mcp_(policy_denied|cancelled)/) },
    });
    request.say('done');
    expect((await cli.finished()).code).toBe(0);
  });

  it('goes on with its last snapshot while the registry is away [sms.node.survives]', async () => {
    const sms = await startTestSms();
    await register(sms, notes);
    const cli = await runFiles(sms, 'notes');
    const first = await model.current.next();
    await sms.sms.close();
    await cli.says('stderr', 'the registry is unreachable');
    first.call('notes_list_directory', { path: '.' });
    const { request, content } = await lastMessage();
    expect(content).toContain('risks.md');
    request.say('done');
    expect((await cli.finished()).code).toBe(0);
  });

  it('refuses MCP once its snapshot is older than max_staleness_ms [sms.node.staleness]', async () => {
    const sms = await startTestSms();
    await register(sms, notes);
    const config = join(scratch, 'staleness.toml');
    // Long enough for the model to be asked while the snapshot is confirmed, on a busy machine too.
    writeFileSync(config, '[mcp]\nmax_staleness_ms = 6000\n');
    const cli = await runFiles(sms, 'notes', ['--config', config]);
    const first = await model.current.next();
    await sms.sms.close();
    await cli.says('stderr', 'older than mcp.max_staleness_ms');
    // On a busy machine it may have been that before already, and confirmed again since.
    const outcome = await refused(first);
    expect(JSON.parse(outcome.content)).toMatchObject({ error: { code: 'mcp_policy_denied' } });
    const { request } = outcome;
    request.say('done');
    expect((await cli.finished()).code).toBe(0);
  });
});

it('tells in words and in its trail that the registry no longer takes its token [sms.auth.rotation]', async () => {
  const sms = await startTestSms();
  await register(sms, notes);
  const audit = join(scratch, 'refused.jsonl');
  const cli = await runFiles(sms, 'notes', ['--audit', audit]);
  const first = await model.current.next();
  writeFileSync(sms.config.files.nodeToken, `${'n'.repeat(40)}\n`);
  await sms.sms.reload();
  await cli.says('stderr', 'the registry rejects this node');
  first.say('done');
  const { code, stderr } = await cli.finished();
  expect(code).toBe(0);
  expect(stderr.match(/rejects this node/g)).toHaveLength(1);
  const lines = readFileSync(audit, 'utf8').trim().split('\n');
  const states = lines.map((line) => JSON.parse(line)).filter(({ event }) => event === 'registry.state');
  expect(states.at(-1)).toMatchObject({ state: 'refused', reason: expect.stringContaining('unauthenticated') });
});

describe('a run whose registry does not answer', () => {
  const config = join(scratch, 'quick.toml');
  writeFileSync(config, '[mcp]\nfirst_snapshot_ms = 1500\n');
  const chat = [fixture('c/chat.wasm'), '--config', config, '--task-config'];

  it('says nothing to whoever listens at its port meanwhile [sms.client.proved]', async () => {
    const heard: Buffer[] = [];
    const impostor = createServer((socket) => socket.on('data', (chunk) => heard.push(Buffer.from(chunk))));
    await new Promise<void>((resolve) => impostor.listen(0, '127.0.0.1', resolve));
    const { port } = impostor.address() as AddressInfo;
    const { code, stderr } = await spearRun([...chat, task('notes'), '--sms', `127.0.0.1:${port}`]);
    impostor.close();
    expect(stderr).toContain('MCP is unavailable until it responds');
    expect(stderr).toContain('sockets/grpc.sock');
    expect({ code, heard }).toEqual({ code: 0, heard: [] });
  });

  it('uses what an earlier run knew, says how old it is, and takes none of a registry that refuses it [sms.node.saved]', async () => {
    const sms = await startTestSms();
    await register(sms, notes);
    const flags = ['--sms', `unix:${sms.config.files.grpcSocket}`, '--dry-run'];
    const first = await spearRun([...chat, task('notes'), ...flags]);
    expect(first).toMatchObject({ code: 0, stdout: expect.stringContaining('mcp      notes') });
    await sms.sms.close();
    const second = await spearRun([...chat, task('notes'), ...flags, '--require-registry']);
    expect(second).toMatchObject({ code: 0, stdout: expect.stringContaining('mcp      notes') });
    expect(second.stderr).toMatch(/using its snapshot from \d+ s ago/);
    await sms.restart();
    const refused = await spearRun([
      ...chat,
      task('notes'),
      ...flags,
      '--require-registry',
      '--sms-token',
      'x'.repeat(40),
    ]);
    expect(refused).toMatchObject({ code: 125, stderr: expect.stringContaining('unauthenticated') });
  });

  it('goes on without MCP and says so [sms.node.bounded-wait]', async () => {
    const { code, stderr, stdout } = await spearRun([...chat, task('notes'), '--sms', '127.0.0.1:1']);
    expect(stderr).toContain('MCP is unavailable until it responds');
    expect(stdout).toContain('[stub]');
    expect(code).toBe(0);
  });

  it('does not start with --require-registry [sms.node.bounded-wait]', async () => {
    const { code, stderr } = await spearRun([...chat, task('notes'), '--sms', '127.0.0.1:1', '--require-registry']);
    expect(stderr).toContain('--require-registry');
    expect(code).toBe(125);
  });

  it('takes its records from one place only [sms.node.bounded-wait]', async () => {
    const { code, stderr } = await spearRun([...chat, task('notes'), '--sms', '127.0.0.1:1', '--mcp-dir', scratch]);
    expect(stderr).toContain('--sms and --mcp-dir');
    expect(code).toBe(125);
  });

  it('says that a wrong token was refused, never the token [sms.node.bounded-wait]', async () => {
    const sms = await startTestSms();
    const flags = ['--sms', sms.sms.grpc, '--sms-token', 'wrong-token-value', '--require-registry'];
    const { code, stderr } = await spearRun([...chat, task('notes'), ...flags]);
    expect(code).toBe(125);
    expect(stderr).toContain('unauthenticated');
    expect(stderr).not.toContain('wrong-token-value');
  });
});
