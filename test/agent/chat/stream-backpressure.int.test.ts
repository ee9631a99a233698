import { afterEach, expect, it } from 'vitest';
import { OpenAiBackend } from '../../../src/agent/chat/backends/openai.ts';
import { NO_PROXY } from '../../../src/config/host/proxy.ts';
import { SEND_WINDOW_BYTES } from '../../../src/runtime/port/port.ts';
import { newSession, readEvents, STREAM, send, textOf } from '../../support/chat-calls.ts';
import { until } from '../../support/until.ts';
import { useGuests } from '../../support/use-guest.ts';
import { compiledBackend, deltaChunk, event, ProviderServer, startStream } from './backends/provider-server.ts';

const MIB = 1024 * 1024;
const PROVIDER_BYTES = 1024 * MIB;
/** What the sockets of both ends may hold, and more: the kernel lets them grow to some megabytes. */
const UNDERWAY_BYTES = 24 * MIB;

const openGuest = useGuests();
let stop: () => Promise<void> = async () => {};
afterEach(() => stop());

it('a guest that does not read stops a provider that would send a gigabyte, and goes on when it reads [stream.backpressure]', async () => {
  let written = 0;
  let stalled = false;
  let closed = false;
  const chunk = event(deltaChunk({ content: 'x'.repeat(1000) }));
  const provider = await ProviderServer.start(async (response) => {
    startStream(response);
    let goOn = () => {};
    response.on('drain', () => goOn());
    response.on('close', () => {
      closed = true;
      goOn();
    });
    while (written < PROVIDER_BYTES && !closed) {
      written += chunk.length;
      if (response.write(chunk)) continue;
      stalled = true;
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
      stalled = false;
    }
  });
  stop = () => provider.stop();
  const compiled = compiledBackend(provider.baseUrl, { maxResponseBytes: 256 * MIB });
  const guest = await openGuest({ backend: new OpenAiBackend(compiled, { proxy: NO_PROXY }) });
  const response = await send(guest, await newSession(guest), STREAM);

  /** Waits until nothing moves any more, and says how much the provider got rid of. */
  const atRest = async () => {
    let before = -1;
    await until(() => {
      const rests = stalled && written === before;
      before = written;
      return rests && guest.state.answerBytes >= SEND_WINDOW_BYTES / 2;
    }, 'the provider to be stopped');
    return written;
  };
  const heap = process.memoryUsage().heapUsed + process.memoryUsage().external;
  const first = await atRest();
  expect(first).toBeLessThan(UNDERWAY_BYTES);
  expect(guest.state.answerBytes).toBeLessThan(SEND_WINDOW_BYTES * 4);
  expect(process.memoryUsage().heapUsed + process.memoryUsage().external - heap).toBeLessThan(64 * MIB);

  const wanted = first + MIB;
  for (let read = 0; read < wanted; ) {
    const text = textOf(await readEvents(guest, response));
    expect(text.replaceAll('x', '')).toBe('');
    read += text.length;
    guest.heap.reset();
  }
  expect(written).toBeGreaterThan(wanted);
  expect(await atRest()).toBeLessThan(written + UNDERWAY_BYTES);
  await guest.call('cchat_close', response);
  await until(() => closed, 'the provider to be let go');
  expect(guest.state.answerBytes).toBe(0);
});
