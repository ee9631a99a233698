import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect, promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CompiledHostConfig, loadHostConfig } from '../../../src/config/host/host-config.ts';

const OPENAI = 'kind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'spear-config-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

function write(name: string, text: string): string {
  const path = join(folder, name);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, text, { mode: 0o600 });
  return path;
}

function load(toml: string, env: NodeJS.ProcessEnv = {}): Promise<CompiledHostConfig> {
  return loadHostConfig({ file: write('config.toml', toml), env });
}

async function complaint(toml: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const error = await load(toml, env).then(
    () => expect.fail('the config should have been refused'),
    (reason) => reason,
  );
  expect(error.name).toBe('ConfigError');
  return error.message.replaceAll(join(folder, 'config.toml'), 'FILE');
}

describe('the file', () => {
  it('is compiled with its defaults, and frozen [config.host.file]', async () => {
    const config = await load(`[backends.main]\n${OPENAI}`);
    expect(config.defaultBackend).toBe('main');
    expect(config.backends.get('main')).toEqual({
      kind: 'openai',
      name: 'main',
      baseUrl: 'http://127.0.0.1:9/v1',
      model: 'm',
      images: 'none',
      apiKey: undefined,
      headers: new Map(),
      timeoutMs: 600_000,
      connectTimeoutMs: 10_000,
      maxRetries: 3,
      maxResponseBytes: 32 * 1024 * 1024,
      problem: undefined,
    });
    expect(Object.isFrozen(config) && Object.isFrozen(config.backends.get('main'))).toBe(true);
  });

  it('defines several backends, paths beside itself, secrets by reference [config.host.file]', async () => {
    write('key.txt', 'from-the-file\n');
    const config = await load(
      `default_backend = "main"
      [backends.main]
      ${OPENAI}
      api_key = "file:key.txt"
      timeout_ms = 1
      connect_timeout_ms = 2
      max_retries = 0
      max_response_bytes = 3
      images = "user_message"
      headers = { "X-Org" = "acme", "X-Token" = "env:TOKEN" }
      [backends.replay]
      kind = "scripted"
      script = "scripts/turns.json"
      [backends.none]
      kind = "stub"`,
      { TOKEN: 'from-the-environment' },
    );
    expect([...config.backends.keys()]).toEqual(['main', 'replay', 'none']);
    const main = config.backends.get('main');
    if (main?.kind !== 'openai') return expect.fail('wrong kind');
    expect(main).toMatchObject({ timeoutMs: 1, connectTimeoutMs: 2, maxRetries: 0, maxResponseBytes: 3 });
    expect(main.images).toBe('user_message');
    expect(main.apiKey?.reveal()).toBe('from-the-file');
    expect([...main.headers].map(([name, value]) => [name, value.reveal()])).toEqual([
      ['x-org', 'acme'],
      ['x-token', 'from-the-environment'],
    ]);
    expect(config.backends.get('replay')).toEqual({
      kind: 'scripted',
      name: 'replay',
      script: join(folder, 'scripts/turns.json'),
    });
    expect(config.backends.get('none')).toEqual({ kind: 'stub', name: 'none' });
    expect(inspect(config, { depth: 9, showHidden: true })).not.toMatch(/from-the-|acme/);
    expect(JSON.stringify(main)).not.toContain('from-the-');
  });

  it.each([
    ['the argument', 'a.toml', 'named-a'],
    ['SPEAR_CONFIG', undefined, 'named-b'],
  ])('is the one that %s names [config.host.file]', async (_, argument, chosen) => {
    write('a.toml', '[backends.named-a]\nkind = "stub"');
    const env = { SPEAR_CONFIG: write('b.toml', '[backends.named-b]\nkind = "stub"'), XDG_CONFIG_HOME: folder };
    write('spear/config.toml', '[backends.named-c]\nkind = "stub"');
    const file = argument === undefined ? undefined : join(folder, argument);
    expect((await loadHostConfig({ file, env })).defaultBackend).toBe(chosen);
  });

  it("is the user's own when none is named, if there is one [config.host.file]", async () => {
    const own = write('xdg/spear/config.toml', '[backends.own]\nkind = "stub"');
    write('home/.config/spear/config.toml', '[backends.home]\nkind = "stub"');
    const home = join(folder, 'home');
    const xdg = join(folder, 'xdg');
    const loadEnv = async (env: NodeJS.ProcessEnv) => (await loadHostConfig({ env })).defaultBackend;
    expect(await loadEnv({ XDG_CONFIG_HOME: xdg, HOME: home, SPEAR_CONFIG: '' })).toBe('own');
    expect(await loadEnv({ HOME: home })).toBe('home');
    expect(await loadEnv({ XDG_CONFIG_HOME: 'relative', HOME: home })).toBe('home');
    expect(await loadEnv({ HOME: xdg })).toBe('stub');
    expect(await loadEnv({})).toBe('stub');
    expect((await loadHostConfig({ env: { XDG_CONFIG_HOME: xdg } })).file).toBe(own);
  });

  it('must be there when it is named [config.host.file]', async () => {
    const missing = join(folder, 'missing.toml');
    await expect(loadHostConfig({ file: missing, env: {} })).rejects.toThrow(
      `${missing}: the config file cannot be read (ENOENT)`,
    );
    await expect(loadHostConfig({ env: { SPEAR_CONFIG: missing } })).rejects.toThrow(
      `${missing}: the config file named by SPEAR_CONFIG cannot be read (ENOENT)`,
    );
    mkdirSync(join(folder, 'spear/config.toml'), { recursive: true });
    await expect(loadHostConfig({ env: { XDG_CONFIG_HOME: folder } })).rejects.toThrow('EISDIR');
  });

  it('without backends leaves them to the environment', async () => {
    expect((await load('')).defaultBackend).toBe('stub');
    expect((await load('[backends]', { OPENAI_API_KEY: 'x' })).defaultBackend).toBe('openai');
    expect((await load('default_backend = "openai"', { OPENAI_API_KEY: 'x' })).defaultBackend).toBe('openai');
    expect(await complaint('default_backend = "main"')).toContain('no backend "main" (defined: stub)');
  });

  it('with backends is not mixed with the environment', async () => {
    const config = await load(`[backends.main]\n${OPENAI}`, { OPENAI_API_KEY: 'x', OPENAI_MODEL: 'y' });
    expect([...config.backends.keys()]).toEqual(['main']);
    expect(config.backends.get('main')).toMatchObject({ model: 'm', apiKey: undefined });
  });
});

describe('a mistake in the file', () => {
  it.each([
    [
      'backend = 1',
      'FILE: unknown key "backend", did you mean "backends"? (valid here: default_backend, backends, mcp, egress',
    ],
    ['backends = 1', 'FILE: backends: expected a table, found a number'],
    ['[backends]\nmain = "x"', 'FILE: backends.main: expected a table, found a string'],
    [
      '[backends.main]\nkind = "opnai"',
      'FILE: backends.main.kind: expected one of "openai", "scripted", "stub", found "opnai", did you mean "openai"?',
    ],
    [
      '[backends.main]\nmodel = "x"',
      'FILE: backends.main.kind: is missing (expected one of "openai", "scripted", "stub")',
    ],
    [
      '[backends.main]\nkind = 3',
      'FILE: backends.main.kind: expected one of "openai", "scripted", "stub", found a number',
    ],
    ['[backends."a b"]\nkind = "stub"', 'FILE: backends."a b": a backend name has'],
    ['[backends.main]\nkind = "openai"\nmodel = "m"', 'FILE: backends.main.base_url: is missing (expected a string)'],
    ['[backends.main]\nkind = "stub"\nmodle = "m"', 'FILE: backends.main: unknown key "modle" (valid here: kind)'],
    [`[backends.main]\n${OPENAI}timeout = 3`, 'FILE: backends.main: unknown key "timeout", did you mean "timeout_ms"?'],
    [`[backends.main]\n${OPENAI}timeout_ms = "3"`, 'FILE: backends.main.timeout_ms: expected a number, found a string'],
    [
      `[backends.main]\n${OPENAI}timeout_ms = 1.5`,
      'FILE: backends.main.timeout_ms: expected a whole number, found a fraction',
    ],
    [`[backends.main]\n${OPENAI}timeout_ms = 0`, 'FILE: backends.main.timeout_ms: must be at least 1, found 0'],
    [
      `[backends.main]\n${OPENAI}timeout_ms = 1979-05-27`,
      'FILE: backends.main.timeout_ms: expected a number, found a date',
    ],
    [`[backends.main]\n${OPENAI}max_retries = 99`, 'FILE: backends.main.max_retries: must be at most 10, found 99'],
    [`[backends.main]\n${OPENAI}images = "yes"`, 'FILE: backends.main.images: '],
    [
      `[backends.main]\n${OPENAI}headers = { "a b" = "x" }`,
      'FILE: backends.main.headers."a b": is not a valid HTTP header name',
    ],
    [
      `[backends.main]\n${OPENAI}headers = { Host = "x" }`,
      'FILE: backends.main.headers.Host: is a header that the host sets itself',
    ],
    [
      `[backends.main]\n${OPENAI}headers = { a = 1 }`,
      'FILE: backends.main.headers.a: expected a string, found a number',
    ],
    [
      `[backends.main]\n${OPENAI}headers = { a = "1", A = "2" }`,
      'FILE: backends.main.headers.A: the header is set twice',
    ],
    [
      `[backends.main]\n${OPENAI}api_key = "env:A"\nheaders = { Authorization = "x" }`,
      'FILE: backends.main.headers.Authorization: api_key already sets this header',
    ],
    ['[backends.main]\nkind = "scripted"\nscript = ""', 'FILE: backends.main.script: must not be empty'],
    ['[backends.a]\nkind = "stub"\n[backends.b]\nkind = "stub"', 'FILE: default_backend is missing: name one of a, b'],
    [
      'default_backend = "mian"\n[backends.main]\nkind = "stub"',
      'FILE: default_backend: there is no backend "mian", did you mean "main"? (defined: main)',
    ],
  ])('%j: %s [config.host.strict]', async (toml, message) => {
    expect(await complaint(toml)).toContain(message);
  });

  it.each([
    [
      'localhost:8080/v1',
      'must be an http:// or https:// url, such as https://api.openai.com/v1, found "localhost:8080/v1"',
    ],
    ['ftp://x/v1', 'must be an http:// or https:// url'],
    ['', 'must be an http:// or https:// url'],
    ['https://user:hunter22@x/v1', 'must not contain a user name or password'],
    ['https://x/v1?key=hunter22#part', 'must not have a fragment (#), found "https://x/v1"'],
  ])('base_url %j: %s [config.host.strict]', async (url, message) => {
    const said = await complaint(`[backends.main]\nkind = "openai"\nmodel = "m"\nbase_url = "${url}"`);
    expect(said).toContain(`FILE: backends.main.base_url: ${message}`);
    expect(said).not.toContain('hunter22');
  });

  it('is reported with all others at once, up to a bound [config.host.strict]', async () => {
    expect((await complaint('[backends.a]\nkind = 1\n[backends.b]\nkind = 2')).split('\n')).toHaveLength(2);
    const many = Array.from({ length: 15 }, (_, i) => `[backends.b${i}]\nkind = 1`).join('\n');
    const lines = (await complaint(many)).split('\n');
    expect(lines).toHaveLength(11);
    expect(lines.at(-1)).toBe('FILE: and 5 more');
  });

  it.each([
    ['x = ', 1],
    ['a = 1\nb = "open\n', 2],
    ['[backends.main]\nkind = "stub"\nkind = "stub"', 3],
  ])('in the syntax of %j is placed on line %i', async (toml, line) => {
    expect(await complaint(toml)).toMatch(new RegExp(`^FILE:${line}:\\d+: not valid TOML: \\w`));
  });

  it('never shows a key that stands in the wrong place', async () => {
    const key = 'sk-do-not-show-me';
    for (const toml of [
      `[backends.main]\n${OPENAI}api_key = "${key}"`,
      `[backends.main]\n${OPENAI}api_key = "env:${key}"`,
      `[backends.main]\n${OPENAI}apikey = "${key}"`,
      `[backends.main]\n${OPENAI}timeout_ms = "${key}"`,
      `[backends.main]\n${OPENAI}headers = "${key}"`,
      `[backends]\nmain = "${key}"`,
      `[backends.main]\napi_key = "${key}"\napi_key = "${key}"`,
      `[backends.main]\napi_key = "${key}\n`,
      `[backends.main]\napi_key = ${key}`,
    ]) {
      expect(await complaint(toml)).not.toContain(key);
    }
    expect(await complaint(`[backends.main]\n${OPENAI}api_key = "${key}"`)).toContain(
      'must be a reference, env:NAME or',
    );
  });
});

describe('a key that cannot be had', () => {
  it.each([
    ['api_key = "env:NOPE"', 'backends.main.api_key: env:NOPE: the environment variable is not set'],
    ['api_key = "file:nope"', 'backends.main.api_key: file:nope: the file cannot be read (ENOENT)'],
    ['api_key = "env:ODD"', 'backends.main.api_key: contains characters that an HTTP header cannot carry'],
    ['headers = { X-A = "env:NOPE" }', 'backends.main.headers.X-A: env:NOPE: the environment variable is not set'],
    ['headers = { X-A = "a\\nb" }', 'backends.main.headers.X-A: contains characters that an HTTP header cannot carry'],
  ])('%s is a problem of that backend alone [config.secret.reference]', async (line, problem) => {
    const config = await load(`[backends.main]\n${OPENAI}${line}`, { ODD: 'a\nb' });
    expect(config.backends.get('main')).toMatchObject({
      apiKey: undefined,
      problem: `${join(folder, 'config.toml')}: ${problem}`,
    });
  });
});

describe('the environment alone', () => {
  it.each<[NodeJS.ProcessEnv, string, string | undefined, string | undefined]>([
    [{ OPENAI_API_KEY: 'k' }, 'https://api.openai.com/v1', 'k', undefined],
    [{ OPENAI_BASE_URL: 'http://x/v1' }, 'http://x/v1', undefined, undefined],
    [{ OPENAI_BASE_URL: 'http://x/v1', OPENAI_API_KEY: ' k\n', OPENAI_MODEL: 'm' }, 'http://x/v1', 'k', 'm'],
    [{ OPENAI_BASE_URL: '', OPENAI_API_KEY: 'k', OPENAI_MODEL: '' }, 'https://api.openai.com/v1', 'k', undefined],
  ])('%j defines a backend', async (env, baseUrl, key, model) => {
    const config = await loadHostConfig({ env });
    expect(config).toMatchObject({ file: undefined, defaultBackend: 'openai' });
    const backend = config.backends.get('openai');
    if (backend?.kind !== 'openai') return expect.fail('wrong kind');
    expect(backend).toMatchObject({ baseUrl, model, timeoutMs: 600_000, maxRetries: 3, problem: undefined });
    expect(backend.apiKey?.reveal()).toBe(key);
  });

  it.each([{}, { OPENAI_MODEL: 'm' }, { OPENAI_API_KEY: '', OPENAI_BASE_URL: '' }])('%j is the stub', async (env) => {
    const config = await loadHostConfig({ env });
    expect([...config.backends.values()]).toEqual([{ kind: 'stub', name: 'stub' }]);
  });

  it('is checked as well', async () => {
    await expect(loadHostConfig({ env: { OPENAI_BASE_URL: 'localhost' } })).rejects.toThrow(
      'OPENAI_BASE_URL: must be an http:// or https:// url, such as https://api.openai.com/v1, found "localhost"',
    );
    const config = await loadHostConfig({ env: { OPENAI_API_KEY: 'sk\u0000odd' } });
    expect(config.backends.get('openai')).toMatchObject({
      problem: 'OPENAI_API_KEY contains characters that an HTTP header cannot carry',
    });
  });

  it('costs neither the validator nor the TOML parser', async () => {
    const program = `
      import { registerHooks } from 'node:module';
      const loaded = new Set();
      registerHooks({ resolve: (name, context, next) => (loaded.add(name), next(name, context)) });
      const { loadHostConfig } = await import('./src/config/host/host-config.ts');
      const show = () => console.log(['zod', 'smol-toml'].filter((name) => loaded.has(name)).join(','));
      await loadHostConfig({ env: { OPENAI_API_KEY: 'x', HTTPS_PROXY: 'http://p' } });
      show();
      await loadHostConfig({ env: {}, file: 'x', readFile: () => '' });
      show();
    `;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
    expect(stdout).toBe('\nzod,smol-toml\n');
  });
});

describe('proxy variables', () => {
  const proxyOf = async (env: NodeJS.ProcessEnv) => {
    const { http, https, noProxy } = (await loadHostConfig({ env: { OPENAI_API_KEY: 'x', ...env } })).proxy;
    return [http?.reveal(), https?.reveal(), noProxy];
  };

  it.each<[NodeJS.ProcessEnv, unknown[]]>([
    [{}, [undefined, undefined, '']],
    [{ HTTP_PROXY: 'http://a:1', HTTPS_PROXY: 'https://b:2', NO_PROXY: 'c,d' }, ['http://a:1', 'https://b:2', 'c,d']],
    [{ http_proxy: 'http://a:1', https_proxy: 'http://b:2', no_proxy: 'c' }, ['http://a:1', 'http://b:2', 'c']],
    [{ HTTP_PROXY: 'http://upper', http_proxy: 'http://lower' }, ['http://lower', undefined, '']],
    [{ HTTP_PROXY: 'http://upper', http_proxy: '' }, ['http://upper', undefined, '']],
    [{ HTTPS_PROXY: 'proxy:3128' }, [undefined, 'http://proxy:3128', '']],
  ])('%j are read as %j', async (env, expected) => {
    expect(await proxyOf(env)).toEqual(expected);
  });

  it('that are wrong are named, their value is not shown', async () => {
    for (const value of ['socks5://user:hunter22@x', 'http://user:hunter22@:80:80']) {
      const error = await proxyOf({ https_proxy: value }).catch((reason) => reason);
      expect(error.message).toBe(
        'https_proxy: the proxy must be an http:// or https:// url, such as http://proxy.example:3128',
      );
    }
  });

  it('that nothing uses are not looked at', async () => {
    await expect(loadHostConfig({ env: { HTTP_PROXY: 'socks5://x' } })).resolves.toMatchObject({
      defaultBackend: 'stub',
    });
  });
});
