import { expect, it } from 'vitest';
import { boundFetch } from '../../../../../src/agent/mcp/client/transport/bounded-fetch.ts';

const watch = { maxMessageBytes: 1024, tooLarge: () => {}, broken: () => {} };

it('gives everything else its turn while a server sends faster than it is read', async () => {
  const events = Buffer.from('data: {}\n\n'.repeat(5_000));
  let left = 40;
  const body = new ReadableStream({
    pull(controller) {
      if (left-- > 0) controller.enqueue(events);
      else controller.close();
    },
  });
  const answer = () => Promise.resolve(new Response(body, { headers: { 'content-type': 'text/event-stream' } }));
  const response = await boundFetch(answer, watch)('http://server.test/');
  let [turns, bytes, isOver] = [0, 0, false];
  const turn = () => {
    turns++;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  for await (const part of response.body ?? []) bytes += part.length;
  isOver = true;
  expect(bytes).toBe(40 * events.length);
  expect(turns).toBeGreaterThan(3);
});
