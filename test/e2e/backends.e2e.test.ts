import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { completionBody, type Handler, ProviderServer, sendJson } from '../agent/chat/backends/provider-server.ts';
import { fixture, scratch, spearRun } from './spear-run.ts';

const chat = fixture('c/chat.wasm');
const hello = fixture('c/hello.wasm');
const KEY = 'sk-this-key-must-never-be-seen-0123456789';

const servers: ProviderServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

async function provider(handler: Handler): Promise<ProviderServer> {
  const server = await ProviderServer.start(handler);
  servers.push(server);
  return server;
}

function file(name: string, text: string): string {
  const path = join(scratch, name);
  writeFileSync(path, text);
  return path;
}

describe('OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL', () => {
  it('are all that a run needs [cli.openai-env]', async () => {
    const server = await provider((response) =>
      sendJson(response, 200, { ...completionBody('Hello from afar.'), usage: { prompt_tokens: 3, total_tokens: 5 } }),
    );
    const env = { OPENAI_BASE_URL: server.baseUrl, OPENAI_API_KEY: KEY, OPENAI_MODEL: 'some-model' };
    const { code, stdout, stderr } = await spearRun([chat, '--json', '--', 'Hi'], { env });
    expect({ code, stderr }).toEqual({ code: 0, stderr: 'Hello from afar.\n' });
    expect(JSON.parse(stdout)).toMatchObject({ model_calls: 1, tokens: { prompt_tokens: 3, total_tokens: 5 } });
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]?.url).toBe('/v1/chat/completions');
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
    expect(server.requests[0]?.body).toEqual({ messages: [{ role: 'user', content: 'Hi' }], model: 'some-model' });
  });

  it('are not asked by a guest that does not chat [cli.openai-env]', async () => {
    const server = await provider((response) => sendJson(response, 200, completionBody()));
    const env = { OPENAI_BASE_URL: server.baseUrl, OPENAI_API_KEY: KEY };
    expect(await spearRun([hello], { env })).toMatchObject({ code: 0, stdout: 'hello from C\n', stderr: '' });
    expect(server.connections).toBe(0);
  });

  it('with an address that is none: named, and 125 [cli.openai-env] [cli.exit-code.usage]', async () => {
    const { code, stderr } = await spearRun([chat], { env: { OPENAI_BASE_URL: 'not a url' } });
    expect(code).toBe(125);
    expect(stderr).toContain('OPENAI_BASE_URL: must be an http:// or https:// url');
  });
});

describe('a key', () => {
  /** Every spelling in which an answer or a message could give the key away. */
  const spellings = [KEY, Buffer.from(KEY).toString('base64'), Buffer.from(`Bearer ${KEY}`).toString('base64')];

  it.each<[string, Handler]>([
    [
      'a refusal that repeats it',
      (response, seen) => sendJson(response, 401, { error: { message: `bad ${seen.headers.authorization}` } }),
    ],
    ['an answer that is no JSON', (response, seen) => response.end(`<html>${seen.headers.authorization}</html>`)],
    ['a connection that breaks', (response) => response.destroy()],
  ])('never shows in the output: %s', async (_, handler) => {
    const server = await provider(handler);
    const config = file(
      'secret.toml',
      `[backends.main]\nkind = "openai"\nbase_url = "${server.baseUrl}"\nmodel = "m"\napi_key = "env:MY_KEY"\nmax_retries = 0\n`,
    );
    const outputs: string[] = [];
    for (const flags of [[], ['--verbose'], ['--json'], ['--dry-run']]) {
      const { stdout, stderr } = await spearRun([chat, '--config', config, ...flags], { env: { MY_KEY: KEY } });
      outputs.push(stdout, stderr);
    }
    expect(server.requests.length).toBeGreaterThan(0);
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
    for (const spelling of spellings) expect(outputs.join('\n')).not.toContain(spelling);
  });

  it('written into the config itself is refused without being repeated', async () => {
    const config = file(
      'literal.toml',
      `[backends.main]\nkind = "openai"\nbase_url = "http://127.0.0.1/v1"\nmodel = "m"\napi_key = "${KEY}"\n`,
    );
    const { code, stdout, stderr } = await spearRun([hello, '--config', config]);
    expect(code).toBe(125);
    expect(stderr).toContain('api_key: must be a reference, env:NAME or file:PATH');
    expect(stdout + stderr).not.toContain(KEY);
  });

  it('is not in the environment of the guest [cli.guest-env]', async () => {
    const { stdout } = await spearRun([fixture('c/test/env.wasm')], { env: { OPENAI_API_KEY: KEY } });
    expect(stdout).toBe('arg 0: env.wasm\n');
  });
});

describe('a config file', () => {
  const scripts = `default_backend = "one"

[backends.one]
kind = "scripted"
script = "one.json"

[backends.two]
kind = "scripted"
script = "two.json"
`;
  for (const name of ['one', 'two']) {
    file(`${name}.json`, JSON.stringify({ turns: [{ reply: { content: `This is ${name}.` } }] }));
  }
  const config = file('config.toml', scripts);

  it('names the backends; flag, then task, then default_backend choose [cli.backend]', async () => {
    const task = file('two-task.json', JSON.stringify({ backend: 'two' }));
    const answer = async (...flags: string[]) => (await spearRun([chat, '--config', config, ...flags])).stdout;
    expect(await answer()).toBe('This is one.\n');
    expect(await answer('--backend', 'two')).toBe('This is two.\n');
    expect(await answer('--task-config', task)).toBe('This is two.\n');
    expect(await answer('--task-config', task, '--backend', 'one')).toBe('This is one.\n');
    expect(await answer('--script', fixture('scripts/chat.json'))).toContain('WebAssembly is');
  });

  it('is found by SPEAR_CONFIG or in the user’s own place', async () => {
    expect((await spearRun([chat], { env: { SPEAR_CONFIG: config } })).stdout).toBe('This is one.\n');
    const own = join(scratch, 'xdg', 'spear');
    mkdirSync(own, { recursive: true });
    writeFileSync(join(own, 'config.toml'), scripts.replaceAll('script = "', `script = "${scratch}/`));
    expect((await spearRun([chat], { env: { XDG_CONFIG_HOME: join(scratch, 'xdg') } })).stdout).toBe('This is one.\n');
  });

  it.each<[string, string, string]>([
    ['a key nobody knows', '[backends.a]\nkind = "stub"\nmodle = "m"\n', 'backends.a: unknown key "modle"'],
    [
      'a default that does not exist',
      'default_backend = "b"\n[backends.a]\nkind = "stub"\n',
      'there is no backend "b"',
    ],
    ['no TOML', 'default_backend = \n', 'not valid TOML'],
  ])('with %s: the file and the place, and 125 [cli.exit-code.usage]', async (_, text, expected) => {
    const wrong = file('wrong.toml', text);
    const { code, stderr } = await spearRun([hello, '--config', wrong]);
    expect(code).toBe(125);
    expect(stderr.startsWith(`spear-run: ${wrong}:`)).toBe(true);
    expect(stderr).toContain(expected);
  });

  it('that is not there: named, and 125', async () => {
    const { code, stderr } = await spearRun([hello, '--config', join(scratch, 'none.toml')]);
    expect({ code, stderr }).toEqual({
      code: 125,
      stderr: `spear-run: ${join(scratch, 'none.toml')}: the config file cannot be read (ENOENT)\n`,
    });
  });
});

describe('--script', () => {
  it.each([
    ['that is not there', join(scratch, 'none.json'), 'the script cannot be read (ENOENT)'],
    ['that is no JSON', file('broken.json', '{'), 'not valid JSON'],
    [
      'with a misspelled key',
      file('misspelled.json', '{"turns":[{"replay":{"content":"x"}}]}'),
      'did you mean "reply"?',
    ],
  ])('%s is refused before the guest starts [cli.exit-code.usage]', async (_, script, expected) => {
    const { code, stdout, stderr } = await spearRun([hello, '--script', script]);
    expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
    expect(stderr).toContain(`spear-run: ${script}: `);
    expect(stderr).toContain(expected);
  });
});

it('without any model a stub answers and says so, once', async () => {
  const { code, stdout, stderr } = await spearRun([fixture('c/epoll.wasm')]);
  expect(code).toBe(0);
  expect(stdout).toContain('answer 1: [stub] no model is configured; you said: Name one colour.\n');
  expect(stderr).toBe('spear-run: no model is configured, a stub answers; see spear-run --help, "The model"\n');
});

it('without a model on the network, no connection is ever tried', async () => {
  const noNetwork = file(
    'no-network.cjs',
    `const refuse = (what) => () => { require('node:fs').writeSync(2, what + ' was used\\n'); process.exit(99); };
     require('node:net').Socket.prototype.connect = refuse('a socket');
     require('node:dns').lookup = refuse('dns.lookup');
     require('node:dgram').createSocket = refuse('dgram');`,
  );
  const nodeArgs = ['--require', noNetwork];
  const agent = [fixture('c/agent.wasm'), '--script', fixture('scripts/agent.json')];
  for (const args of [[hello], [chat], agent, [hello, '--dry-run'], ['--help']]) {
    const { code, stderr } = await spearRun(args, { nodeArgs });
    expect(stderr).not.toContain('was used');
    expect(code).toBe(0);
  }
  const env = { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' };
  expect((await spearRun([chat], { nodeArgs, env })).code, 'the trap itself works').toBe(99);
});
