import { setDefaultCACertificates } from 'node:tls';
import { afterEach, expect, it, vi } from 'vitest';
import type { ChatBackend } from '../../../../src/agent/chat/backend.ts';
import { openBackend } from '../../../../src/agent/chat/backends/open-backend.ts';
import { loadHostConfig } from '../../../../src/config/host/host-config.ts';
import { selfSigned } from '../../../support/certificates.ts';
import { FakeTiming } from './fake-timing.ts';
import { chat, completionBody, never, ProviderServer, sendJson } from './provider-server.ts';
import { ProxyServer } from './proxy-server.ts';

const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  vi.unstubAllEnvs();
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function start(tls?: { key: string; cert: string }) {
  const provider = await ProviderServer.start((response) => sendJson(response, 200, completionBody()), tls);
  const proxy = await ProxyServer.start();
  cleanups.push(
    () => provider.stop(),
    () => proxy.stop(),
  );
  return { provider, proxy };
}

async function openWith(env: NodeJS.ProcessEnv): Promise<ChatBackend> {
  const config = await loadHostConfig({ env });
  const compiled = config.backends.get('openai');
  if (compiled === undefined) return expect.fail('no backend');
  const backend = await openBackend(compiled, { proxy: config.proxy, timing: new FakeTiming() });
  cleanups.push(() => backend.close());
  return backend;
}

it.each(['HTTP_PROXY', 'http_proxy'])('%s: plain HTTP goes through the proxy [chat.backend.proxy]', async (name) => {
  const { provider, proxy } = await start();
  const backend = await openWith({ OPENAI_BASE_URL: provider.baseUrl, [name]: `http://${proxy.host}` });
  await expect(backend.complete(chat(), never)).resolves.toEqual(completionBody());
  expect(proxy.forwarded).toEqual([`${provider.baseUrl}/chat/completions`]);
});

it.each(['HTTPS_PROXY', 'https_proxy'])('%s: HTTPS goes through a tunnel [chat.backend.proxy]', async (name) => {
  vi.stubEnv('HTTPS_PROXY', 'http://127.0.0.1:1');
  vi.stubEnv('https_proxy', 'http://127.0.0.1:1');
  const tls = selfSigned();
  setDefaultCACertificates([tls.cert]);
  const { provider, proxy } = await start(tls);
  const backend = await openWith({
    OPENAI_BASE_URL: `https://localhost:${provider.port}/v1`,
    OPENAI_API_KEY: 'the-key',
    [name]: proxy.host,
    HTTP_PROXY: 'http://127.0.0.1:1',
  });
  await expect(backend.complete(chat(), never)).resolves.toEqual(completionBody());
  expect(proxy.tunnelled).toEqual([`localhost:${provider.port}`]);
  expect(provider.requests[0]?.headers.authorization).toBe('Bearer the-key');
});

it('HTTPS does not go through the proxy for plain HTTP [chat.backend.proxy]', async () => {
  const tls = selfSigned();
  setDefaultCACertificates([tls.cert]);
  const { provider, proxy } = await start(tls);
  const backend = await openWith({
    OPENAI_BASE_URL: `https://localhost:${provider.port}/v1`,
    HTTP_PROXY: `http://${proxy.host}`,
  });
  await expect(backend.complete(chat(), never)).resolves.toEqual(completionBody());
  expect(proxy.tunnelled).toEqual([]);
});

it('a certificate that nobody vouches for is refused, at once [chat.backend.retry]', async () => {
  setDefaultCACertificates([]);
  const { provider } = await start(selfSigned());
  const backend = await openWith({ OPENAI_BASE_URL: `https://localhost:${provider.port}/v1` });
  await expect(backend.complete(chat(), never)).rejects.toMatchObject({ code: 'connection_failed', retryable: false });
  expect(provider.connections).toBe(1);
});

it.each(['127.0.0.1', '*', 'example.com, 127.0.0.1'])(
  'NO_PROXY %s goes directly [chat.backend.proxy]',
  async (list) => {
    const { provider, proxy } = await start();
    for (const name of ['NO_PROXY', 'no_proxy']) {
      const backend = await openWith({
        OPENAI_BASE_URL: provider.baseUrl,
        HTTP_PROXY: `http://${proxy.host}`,
        [name]: list,
      });
      await backend.complete(chat(), never);
    }
    expect(proxy.forwarded).toEqual([]);
    expect(provider.requests).toHaveLength(2);
  },
);

it('NO_PROXY for another host changes nothing [chat.backend.proxy]', async () => {
  const { provider, proxy } = await start();
  const backend = await openWith({
    OPENAI_BASE_URL: provider.baseUrl,
    HTTP_PROXY: `http://${proxy.host}`,
    NO_PROXY: 'example.com,127.0.0.1:1',
  });
  await backend.complete(chat(), never);
  expect(proxy.forwarded).toHaveLength(1);
});

it("the process's own environment is not looked at again [chat.backend.proxy]", async () => {
  const { provider, proxy } = await start();
  vi.stubEnv('HTTP_PROXY', 'http://127.0.0.1:1');
  vi.stubEnv('http_proxy', 'http://127.0.0.1:1');
  const direct = await openWith({ OPENAI_BASE_URL: provider.baseUrl });
  await expect(direct.complete(chat(), never)).resolves.toEqual(completionBody());

  vi.stubEnv('NO_PROXY', '*');
  vi.stubEnv('no_proxy', '*');
  const proxied = await openWith({ OPENAI_BASE_URL: provider.baseUrl, HTTP_PROXY: `http://${proxy.host}` });
  await proxied.complete(chat(), never);
  expect(proxy.forwarded).toHaveLength(1);
});

it('the proxy gets its password, the provider does not, and no error shows it', async () => {
  const { provider, proxy } = await start();
  const backend = await openWith({
    OPENAI_BASE_URL: provider.baseUrl,
    HTTP_PROXY: `http://user:hunter22@${proxy.host}`,
  });
  await backend.complete(chat(), never);
  expect(proxy.authorization).toBe(`Basic ${Buffer.from('user:hunter22').toString('base64')}`);
  expect(provider.requests[0]?.headers).not.toHaveProperty('proxy-authorization');

  const dead = await openWith({ OPENAI_BASE_URL: provider.baseUrl, HTTP_PROXY: 'http://user:hunter22@127.0.0.1:1' });
  const error = await dead.complete(chat(), never).catch((reason) => reason);
  expect(error).toMatchObject({ code: 'connection_failed', retryable: true });
  expect(error.message).not.toContain('hunter22');
});

it('a proxy that refuses the tunnel is no abort of ours [chat.backend.proxy]', async () => {
  const { provider, proxy } = await start();
  proxy.refuseWith = 403;
  const backend = await openWith({
    OPENAI_BASE_URL: `https://localhost:${provider.port}/v1`,
    HTTPS_PROXY: `http://${proxy.host}`,
  });
  const error = await backend.complete(chat(), never).catch((reason) => reason);
  expect(error).toMatchObject({ name: 'BackendError', code: 'connection_failed', retryable: false });
  expect(error.message).toContain('403');
});
