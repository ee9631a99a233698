import { expect, it } from 'vitest';
import { SendMetrics } from '../../../src/agent/chat/send-metrics.ts';
import {
  AUTO_TOOL_CALL,
  fdCommand,
  fdGet,
  METRICS,
  newSession,
  recv,
  send,
  setArena,
  writeTool,
} from '../../support/chat-calls.ts';
import { hasCallbacks } from '../../support/guest-binding.ts';
import { useGuests } from '../../support/use-guest.ts';

const openGuest = useGuests();
const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

if (hasCallbacks())
  it('count model calls, tool calls, bytes and tokens over the whole send [chat.metrics]', async () => {
    const guest = await openGuest({
      turns: [
        {
          when: { role: 'user' },
          reply: {
            usage,
            tool_calls: [
              { id: 'a', name: 'sum', arguments: {} },
              { id: 'b', name: 'sum', arguments: {} },
            ],
          },
        },
        { reply: { content: 'done', usage } },
      ],
    });
    const fd = await newSession(guest);
    await setArena(guest, fd, 1024);
    await writeTool(
      guest,
      fd,
      'sum',
      guest.tool((call) => call.answer('ü3')),
    );
    const response = await send(guest, fd, AUTO_TOOL_CALL | METRICS);
    const body = await recv(guest, response);
    const json = await fdGet(guest, response, fdCommand.GET_METRICS);
    const metrics = JSON.parse(json);
    expect(Object.keys(metrics)).toEqual([
      'duration_ms',
      'iterations',
      'model_ms',
      'response_bytes',
      'tool_calls',
      'tool_output_bytes',
      'usage',
    ]);
    expect(metrics).toMatchObject({
      iterations: 2,
      tool_calls: 2,
      tool_output_bytes: 6,
      response_bytes: Buffer.byteLength(body),
      usage: { completion_tokens: 10, prompt_tokens: 20, total_tokens: 30 },
    });
    expect(metrics.duration_ms).toBeGreaterThanOrEqual(metrics.model_ms);
  });

it('add up nested usage, and keep what is no number as it came last [chat.metrics]', () => {
  const metrics = new SendMetrics(undefined);
  metrics.answered({ usage: { total_tokens: 1, details: { cached: 2, deep: { deeper: 1 } }, tier: 'a' } });
  metrics.answered({ usage: { total_tokens: 2, details: { cached: 3, deep: { deeper: 1 } }, tier: 'b', extra: null } });
  metrics.answered({ usage: 'none' });
  metrics.answered({});
  expect(metrics.usage).toEqual({
    total_tokens: 3,
    details: { cached: 5, deep: { deeper: 2 } },
    tier: 'b',
    extra: null,
  });
});

it('are an empty object for a canceled send [chat.metrics]', async () => {
  const guest = await openGuest();
  const fd = await newSession(guest);
  await guest.call('spear_fd_ctl', fd, fdCommand.SET_FLAGS, ...guest.heap.arg('{"set":["O_NONBLOCK"]}'));
  guest.backend.hold();
  const response = await send(guest, fd);
  await guest.call('spear_fd_cancel', response);
  expect(await fdGet(guest, response, fdCommand.GET_METRICS)).toBe('{}');
});
