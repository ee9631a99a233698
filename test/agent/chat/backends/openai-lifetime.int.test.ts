import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { OpenAiBackend } from '../../../../src/agent/chat/backends/openai.ts';
import type { CompiledOpenAiBackend } from '../../../../src/config/host/host-config.ts';
import { NO_PROXY } from '../../../../src/config/host/proxy.ts';
import {
  aFewTurns,
  chat,
  compiledBackend,
  completionBody,
  deltaChunk,
  event,
  type Handler,
  never,
  ProviderServer,
  sendJson,
  startStream,
} from './provider-server.ts';

const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function open(handler: Handler, changes: Partial<CompiledOpenAiBackend> = {}) {
  const provider = await ProviderServer.start(handler);
  cleanups.push(() => provider.stop());
  const backend = new OpenAiBackend(compiledBackend(provider.baseUrl, changes), { proxy: NO_PROXY });
  cleanups.push(() => backend.close());
  return { provider, backend };
}

const silent: [string, Handler][] = [
  ['before the headers', () => {}],
  ['in the middle of the body', (response) => response.writeHead(200, { 'content-length': 100 }).write('{')],
  [
    'in the middle of a stream',
    (response) => {
      startStream(response);
      response.write(event(deltaChunk({ content: 'x' })));
    },
  ],
  ['in the middle of an error', (response) => response.writeHead(500, { 'content-length': 100 }).write('{')],
];

it.each(silent)('a provider that falls silent %s is a timeout [chat.backend.deadline]', async (_, handler) => {
  const { provider, backend } = await open(handler, { timeoutMs: 1000 });
  const error = await backend.complete(chat(), never).catch((reason) => reason);
  expect(error).toMatchObject({ name: 'BackendError', code: 'timeout', retryable: true });
  expect(error.message).toContain('1000 ms');
  await provider.until(() => provider.openSockets === 0);
  expect(provider.requests).toHaveLength(1);
});

it.each(silent)('an abort %s closes the connection and gives the reason', async (_, handler) => {
  const { provider, backend } = await open(handler);
  const controller = new AbortController();
  const answer = backend.complete(chat(), controller.signal);
  answer.catch(() => {});
  await provider.until(() => provider.requests.length === 1);
  await aFewTurns();
  const reason = new Error('the guest is gone');
  controller.abort(reason);
  await expect(answer).rejects.toBe(reason);
  await provider.until(() => provider.openSockets === 0);
  expect(provider.requests).toHaveLength(1);
});

it('an abort ends a request that still waits for its connection at once, and it is never sent', async () => {
  const sockets: Socket[] = [];
  // Takes connections and never answers the handshake of TLS.
  const silentServer = createServer((socket) => {
    socket.on('error', () => {});
    sockets.push(socket);
  });
  silentServer.listen(0, '127.0.0.1');
  await once(silentServer, 'listening');
  const { port } = silentServer.address() as AddressInfo;
  const backend = new OpenAiBackend(compiledBackend(`https://127.0.0.1:${port}/v1`), { proxy: NO_PROXY });
  cleanups.push(async () => {
    await backend.close();
    for (const socket of sockets) socket.destroy();
    silentServer.close();
  });
  const controller = new AbortController();
  const connected = once(silentServer, 'connection');
  const answer = backend.complete(chat(), controller.signal);
  answer.catch(() => {});
  await connected;
  const reason = new Error('the guest is gone');
  controller.abort(reason);
  await expect(answer).rejects.toBe(reason);
});

it('what a provider says ahead of its answer is not the answer', async () => {
  const { backend } = await open((response) => {
    response.writeEarlyHints({ link: '</style.css>; rel=preload' }, () => sendJson(response, 200, completionBody()));
  });
  await expect(backend.complete(chat(), never)).resolves.toEqual(completionBody());
});

it('an abort of one request leaves the others alone', async () => {
  const { provider, backend } = await open((response, _, count) => {
    if (count === 2) sendJson(response, 200, completionBody('kept'));
  });
  const controller = new AbortController();
  const aborted = backend.complete(chat(), controller.signal);
  aborted.catch(() => {});
  await provider.until(() => provider.requests.length === 1);
  const kept = backend.complete(chat(), never);
  controller.abort(new Error('stop'));
  await expect(aborted).rejects.toThrow('stop');
  await expect(kept).resolves.toEqual(completionBody('kept'));
});

it('a signal that is aborted already sends nothing', async () => {
  const { provider, backend } = await open((response) => sendJson(response, 200, completionBody()));
  const reason = new Error('too late');
  await expect(backend.complete(chat(), AbortSignal.abort(reason))).rejects.toBe(reason);
  expect(provider.connections).toBe(0);
});

it('leaves no listener on the signal of its caller', async () => {
  const { backend } = await open((response) => sendJson(response, 200, completionBody()));
  const controller = new AbortController();
  let listeners = 0;
  const { signal } = controller;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners++;
    add(...args);
  };
  signal.removeEventListener = (...args: Parameters<typeof remove>) => {
    listeners--;
    remove(...args);
  };
  await backend.complete(chat(), signal);
  expect(listeners).toBe(0);
});

it('closing leaves no socket', async () => {
  const { provider, backend } = await open((response, seen) => {
    if (seen.body.stream !== true) return sendJson(response, 200, completionBody());
    startStream(response);
    response.end(`${event(deltaChunk({ content: 'x' }, 'stop'))}data: [DONE]\n\n`);
  });
  await Promise.all(Array.from({ length: 4 }, () => backend.complete(chat(), never)));
  await backend.complete(chat('hi', { stream: true }), never);
  expect(provider.openSockets).toBeGreaterThan(0);
  await backend.close();
  await provider.until(() => provider.openSockets === 0);
  await provider.stop();
  cleanups.length = 0;
  const left = process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap');
  expect(left).toEqual([]);
});

it('closing ends what is running, twice is once, and nothing runs after it', async () => {
  const { provider, backend } = await open(() => {});
  const answer = backend.complete(chat(), never);
  answer.catch(() => {});
  await provider.until(() => provider.requests.length === 1);
  await Promise.all([backend.close(), backend.close()]);
  await expect(answer).rejects.toMatchObject({ code: 'backend_closed', retryable: false });
  await expect(backend.complete(chat(), never)).rejects.toMatchObject({ code: 'backend_closed' });
  await provider.until(() => provider.openSockets === 0);
  expect(provider.requests).toHaveLength(1);
});
