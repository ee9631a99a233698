import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, it, vi } from 'vitest';
import { BackendSet } from '../../../../src/agent/chat/backends/open-backend.ts';
import { loadHostConfig } from '../../../../src/config/host/host-config.ts';
import { chat, completionBody, never, ProviderServer, sendJson } from './provider-server.ts';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function openSet(toml: string, files: Record<string, string> = {}, deps = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'spear-backends-'));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries({ ...files, 'config.toml': toml })) writeFileSync(join(folder, name), text);
  const config = await loadHostConfig({ file: join(folder, 'config.toml'), env: {} });
  const set = new BackendSet(config, deps);
  cleanups.push(() => set.close());
  return { set, folder };
}

it('serves named backends of all kinds, each opened once [chat.backend.named]', async () => {
  const provider = await ProviderServer.start((response) => sendJson(response, 200, completionBody('http')));
  cleanups.push(() => provider.stop());
  const onStubUsed = vi.fn();
  const { set } = await openSet(
    `default_backend = "replay"
    [backends.main]
    kind = "openai"
    base_url = "${provider.baseUrl}"
    model = "m1"
    [backends.replay]
    kind = "scripted"
    script = "turns.json"
    [backends.none]
    kind = "stub"`,
    { 'turns.json': '{"turns":[{"reply":{"content":"scripted"},"repeat":true}]}' },
    { onStubUsed },
  );
  const byDefault = await set.get();
  expect(byDefault.name).toBe('replay');
  await expect(byDefault.complete(chat(), never)).resolves.toMatchObject({
    choices: [{ message: { content: 'scripted' } }],
  });
  const [main, again] = await Promise.all([set.get('main'), set.get('main')]);
  expect(main).toBe(again);
  expect(main).toMatchObject({ name: 'main', model: 'm1' });
  await expect(main.complete(chat(), never)).resolves.toEqual(completionBody('http'));
  await (await set.get('none')).complete(chat(), never);
  expect(onStubUsed).toHaveBeenCalledOnce();
});

it('lists the valid names when one is unknown [chat.backend.named]', async () => {
  const { set } = await openSet(
    'default_backend = "main"\n[backends.main]\nkind = "stub"\n[backends.other]\nkind = "stub"',
  );
  await expect(set.get('mian')).rejects.toMatchObject({
    code: 'unknown_backend',
    retryable: false,
    message: 'there is no backend "mian", did you mean "main"? (configured: main, other)',
  });
});

it('a key that is missing fails only who asks for that backend [chat.backend.named]', async () => {
  const { set, folder } = await openSet(
    `default_backend = "free"
    [backends.free]
    kind = "stub"
    [backends.paid]
    kind = "openai"
    base_url = "http://127.0.0.1:1/v1"
    model = "m"
    api_key = "env:NOT_SET_HERE"`,
  );
  await expect(set.get()).resolves.toMatchObject({ name: 'free' });
  await expect(set.get('paid')).rejects.toMatchObject({
    code: 'backend_misconfigured',
    message: `backend "paid" cannot be used: ${join(folder, 'config.toml')}: backends.paid.api_key: env:NOT_SET_HERE: the environment variable is not set`,
  });
});

it('opens again what could not be opened before [chat.backend.named]', async () => {
  const { set, folder } = await openSet('[backends.replay]\nkind = "scripted"\nscript = "turns.json"');
  await expect(set.get()).rejects.toMatchObject({ code: 'bad_script' });
  writeFileSync(join(folder, 'turns.json'), '{"turns":[{"reply":{"content":"now"}}]}');
  await expect(set.get()).resolves.toMatchObject({ name: 'replay' });
});

it('closes all that are open, and opens none after that', async () => {
  const provider = await ProviderServer.start((response) => sendJson(response, 200, completionBody()));
  cleanups.push(() => provider.stop());
  const { set } = await openSet(`[backends.main]\nkind = "openai"\nbase_url = "${provider.baseUrl}"\nmodel = "m"`);
  const backend = await set.get();
  await backend.complete(chat(), never);
  expect(provider.openSockets).toBe(1);
  await Promise.all([set.close(), set.close()]);
  await provider.until(() => provider.openSockets === 0);
  await expect(backend.complete(chat(), never)).rejects.toMatchObject({ code: 'backend_closed' });
  await expect(set.get()).rejects.toMatchObject({ code: 'backend_closed' });
});

it('closing does not wait longer than its deadline', async () => {
  const { set } = await openSet('[backends.main]\nkind = "stub"');
  const backend = await set.get();
  backend.close = () => new Promise(() => {});
  await expect(set.close(20)).resolves.toBeUndefined();
});

it('the stub loads neither the HTTP client nor the validator', async () => {
  const program = `
    import { registerHooks } from 'node:module';
    const loaded = new Set();
    registerHooks({ resolve: (name, context, next) => (loaded.add(name), next(name, context)) });
    const { loadHostConfig } = await import('./src/config/host/host-config.ts');
    const { BackendSet } = await import('./src/agent/chat/backends/open-backend.ts');
    const show = (when) => console.log(when, ['undici', 'zod', 'smol-toml'].filter((name) => loaded.has(name)).join(','));
    const set = new BackendSet(await loadHostConfig({ env: {} }));
    await (await set.get()).complete({ messages: [] }, new AbortController().signal);
    show('stub:');
    const http = new BackendSet(await loadHostConfig({ env: { OPENAI_API_KEY: 'x' } }));
    await http.get();
    await http.close();
    show('openai:');
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
  expect(stdout.split('\n')).toEqual(['stub: ', 'openai: undici', '']);
});
