import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, openTask, runTask, scriptedBackend, serveMetrics, type TaskOptions } from '../../src/index.ts';
import { collector, emptyConfig, fixture, folder, tiny, withTiny } from './fixtures.ts';

async function run(options: TaskOptions) {
  const said = collector();
  const notices: string[] = [];
  const onNotice = (text: string) => void notices.push(text);
  const result = await runTask({ config: emptyConfig(), output: said.output, onNotice, ...options });
  return { ...result, stdout: said.text(), stderr: said.text('stderr'), notices };
}

const lines = (text: string) =>
  readFileSync(text, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

describe('runTask', () => {
  it('does what the task’s config says: args, env, limits [library.task]', async () => {
    const wasm = fixture('c/test/env.wasm');
    const task = { name: 't', args: ['of the task'], env: { A: '1', B: '1' }, limits: { timeout_ms: 60_000 } };
    const file = join(folder({ 'task.json': task }), 'task.json');
    for (const given of [task, file]) {
      const { stdout } = await run({ wasm, task: given, args: ['more'], env: { B: '2' } });
      expect(stdout).toBe('arg 0: env.wasm\narg 1: of the task\narg 2: more\nenv: A=1\nenv: B=2\n');
    }
    const spin = { wasm: fixture('c/test/spin.wasm'), task: { limits: { timeout_ms: 60_000 } } };
    expect((await run({ ...spin, limits: { timeout_ms: 300 } })).message).toContain('limits.timeout_ms = 300');
  });

  it('asks the backend of the task, of the options, of the host’s config [library.task]', async () => {
    const say = (content: string) => ({ turns: [{ reply: { content }, repeat: true }] });
    const toml = ['a', 'b'].map((name) => `[backends.${name}]\nkind = "scripted"\nscript = "${name}.json"\n`);
    const files = { 'a.json': say('from a'), 'b.json': say('from b') };
    const at = folder({ ...files, 'config.toml': `default_backend = "a"\n${toml.join('')}` });
    const chat = { wasm: fixture('c/chat.wasm'), config: join(at, 'config.toml') };
    expect((await run(chat)).stdout).toContain('from a');
    expect((await run({ ...chat, task: { backend: 'b' } })).stdout).toContain('from b');
    expect((await run({ ...chat, task: { backend: 'b' }, backend: 'a' })).stdout).toContain('from a');
    const backend = await scriptedBackend(say('its own'));
    expect((await run({ ...chat, task: { backend: 'b' }, backend })).stdout).toContain('its own');
    await expect(run({ ...chat, backend: 'c' })).rejects.toThrow('backend: unknown backend "c" (configured: a, b)');
    await expect(run({ ...chat, task: { backend: 'c' } })).rejects.toThrow('task: backend: unknown backend "c"');
  });

  it('opens MCP, the trail of the config and its own metrics [library.task] [library.metrics]', async () => {
    const at = folder({ 'config.toml': '[audit]\nfile = "trail.jsonl"\n' });
    await using served = await serveMetrics(':0');
    const result = await run({
      wasm: fixture('c/mcp.wasm'),
      config: join(at, 'config.toml'),
      task: { ...withTiny, args: ['tiny', 'echo', '{"message":"hi"}'] },
      mcp: { servers: [tiny()], stateDir: folder() },
      metrics: served.metrics,
      run: 'named',
    });
    expect(result).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('1 calls, 0 failed') });
    const trail = lines(join(at, 'trail.jsonl'));
    expect(trail.map(({ event }) => event)).toEqual([
      'chain.started',
      'registry.applied',
      'guest.started',
      'tool_call.started',
      'tool_call.finished',
      'guest.ended',
      'chain.ended',
    ]);
    expect(trail[2]).toMatchObject({ task: 'library', instance: 'named', module: 'mcp.wasm' });
    const metrics = await (await fetch(served.url)).text();
    expect(metrics).toMatch(/mcp_tool_call_total\{[^}]*tool="echo"[^}]*\} 1/);
  });

  it('says that a registry has no effect for a task without MCP [library.task]', async () => {
    const { notices } = await run({ wasm: fixture('c/hello.wasm'), mcp: { directory: '/no/such' } });
    expect(notices).toEqual(['directory has no effect: the task config does not turn MCP on (mcp.enabled)']);
  });

  it.each<[string, object, string]>([
    ['an unknown key', { taskConfig: 'x' }, 'runTask: unknown key "taskConfig"'],
    [
      'an unknown key of mcp',
      { task: withTiny, mcp: { dir: 'x' } },
      'mcp: unknown key "dir", did you mean "directory"?',
    ],
    ['an unknown key of the task', { task: { nam: 'x', config: {} } }, 'task: unknown key "nam", did you mean "name"?'],
    ['a config that is not there', { config: '/no/config.toml' }, '/no/config.toml: the config file cannot be read'],
    ['MCP without a registry', { task: withTiny }, 'the task turns MCP on, but no registry is configured'],
  ])('throws for %s [library.task] [library.strict]', async (_, options, message) => {
    const given = { wasm: fixture('c/hello.wasm'), ...options };
    await expect(run(given)).rejects.toThrow(ConfigError);
    await expect(run(given)).rejects.toThrow(message);
  });
});

describe('openTask', () => {
  it('runs several times, and checks without running [library.task]', async () => {
    const said = collector();
    const mcp = { servers: [tiny()], stateDir: folder() };
    const options = { wasm: fixture('c/mcp.wasm'), config: emptyConfig(), task: withTiny, mcp, output: said.output };
    await using task = await openTask(options);
    expect(await task.check()).toMatchObject({
      module: 'core module',
      backend: 'stub',
      servers: ['tiny'],
      exclusions: [],
      limits: { max_fds: 1024 },
    });
    expect(said.text()).toBe('');
    const args = ['tiny', 'echo', '{"message":"hi"}'];
    for (const run of ['one', 'two']) expect(await task.run({ args, run })).toMatchObject({ exitCode: 0 });
    expect(said.text().match(/1 calls, 0 failed/g)).toHaveLength(2);
    await expect(task.run({ arg: [] } as never)).rejects.toThrow('run: unknown key "arg", did you mean "args"?');
  });

  it('throws what is wrong with the module when it checks [library.task]', async () => {
    await using task = await openTask({ wasm: '/no/such.wasm', config: emptyConfig() });
    await expect(task.check()).rejects.toThrow('no such file');
  });
});
