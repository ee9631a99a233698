import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { BackendError, ConfigError, openAiBackend, runGuest, scriptedBackend, stubBackend } from '../../src/index.ts';
import { collector, fixture, folder } from './fixtures.ts';

const request = { messages: [{ role: 'user', content: 'hi' }] };
const { signal } = new AbortController();

/** A provider on this machine, and what it was asked. */
async function provider() {
  const asked: { key: string | undefined; title: string | undefined; body: unknown }[] = [];
  const server = createServer(async (req, res) => {
    asked.push({ key: req.headers.authorization, title: req.headers['x-title'] as string, body: await json(req) });
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'from afar' } }] }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return { asked, baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` };
}

describe('openAiBackend', () => {
  it('asks an OpenAI-compatible API [library.backends]', async () => {
    const { asked, baseUrl } = await provider();
    const options = { baseUrl, apiKey: 'sk-of-the-test', model: 'small', headers: { 'X-Title': 'test' } };
    await using backend = await openAiBackend(options);
    const said = collector();
    const run = await runGuest({ wasm: fixture('c/chat.wasm'), backend, output: said.output });
    expect(run.exitCode).toBe(0);
    expect(said.text()).toContain('from afar');
    expect(asked).toMatchObject([{ key: 'Bearer sk-of-the-test', title: 'test', body: { model: 'small' } }]);
  });

  it.each<[object, string]>([
    [{ baseURL: 'x' }, 'openAiBackend: unknown key "baseURL", did you mean "baseUrl"?'],
    [{ baseUrl: 'ftp://x' }, 'openAiBackend: baseUrl: must be an http:// or https:// url'],
    [{ apiKey: '' }, 'openAiBackend: apiKey: is empty'],
    [{ apiKey: 'new\nline' }, 'openAiBackend: apiKey: contains characters that an HTTP header cannot carry'],
    [{ headers: { host: 'x' } }, 'openAiBackend: headers.host: is a header that the host sets itself'],
    [{ apiKey: 'k', headers: { Authorization: 'x' } }, 'headers.Authorization: apiKey already sets this header'],
    [{ maxRetries: 11 }, 'openAiBackend: maxRetries: expected a whole number from 0 to 10, found 11'],
  ])('refuses %j [library.backends] [library.strict]', async (options, message) => {
    await expect(openAiBackend(options)).rejects.toThrow(ConfigError);
    await expect(openAiBackend(options)).rejects.toThrow(message);
  });
});

describe('scriptedBackend', () => {
  const turns = [{ reply: { content: 'first' } }, { reply: { content: 'second' }, repeat: true }];

  it('plays turns, or a file of them [library.backends]', async () => {
    const file = join(folder({ 'script.json': { turns, model: 'm' } }), 'script.json');
    for (const options of [{ turns }, { file }]) {
      await using backend = await scriptedBackend(options);
      const answer = async () => JSON.stringify(await backend.complete(request, signal));
      expect(await answer()).toContain('first');
      expect(await answer()).toContain('second');
    }
  });

  it('throws what is wrong with them [library.backends] [library.strict]', async () => {
    await expect(scriptedBackend({ file: '/no/such.json' })).rejects.toThrow(BackendError);
    await expect(scriptedBackend({ turns: [{ replay: {} }] as never })).rejects.toThrow('did you mean "reply"?');
    await expect(scriptedBackend({ truns: [] } as never)).rejects.toThrow('did you mean "turns"?');
  });
});

it('stubBackend answers without a model [library.backends]', async () => {
  await using backend = await stubBackend();
  expect(JSON.stringify(await backend.complete(request, signal))).toContain('you said: hi');
});
