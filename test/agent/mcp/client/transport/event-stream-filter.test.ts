import { describe, expect, it } from 'vitest';
import { EventStreamFilter } from '../../../../../src/agent/mcp/client/transport/event-stream-filter.ts';

function filter(chunks: readonly string[], maxMessageBytes: number) {
  let passed = '';
  const oversized: { head: string; tail: string; bytes: number }[] = [];
  const stream = new EventStreamFilter({
    maxMessageBytes,
    pass: (bytes) => {
      passed += bytes.toString();
    },
    oversized: ({ head, tail, bytes }) => oversized.push({ head: head.toString(), tail: tail.toString(), bytes }),
  });
  for (const chunk of chunks) stream.push(Buffer.from(chunk));
  return { passed, oversized };
}

describe('an event stream', () => {
  it('passes unchanged while its events are small, in any chunks', () => {
    const text = 'event: message\r\nid: 1\r\ndata: {"a":"ü"}\r\n\r\n: comment\ndata: {}\n\n';
    expect(filter([text], 100)).toEqual({ passed: text, oversized: [] });
    expect(filter([...text], 100).passed).toBe(text);
    expect(filter([text.repeat(50)], 100).passed).toBe(text.repeat(50));
  });

  it('loses the data of an event beyond the bound, and nothing else', () => {
    const big = `{"id":7,"result":"${'x'.repeat(200)}"}`;
    const { passed, oversized } = filter([`id: 1\ndata: ${big}\r\n\r\n`, 'data: {"id":8}\n\n'], 100);
    expect(passed).toBe('id: 1\n\r\ndata: {"id":8}\n\n');
    expect(oversized).toEqual([{ head: `${big}\r`, tail: expect.stringMatching(/x"\}$/), bytes: big.length + 7 }]);
  });

  it('is refused where one event has too much in many lines', () => {
    expect(() => filter(['data: 1234567890\n'.repeat(10)], 100)).toThrow(/exceeds the maximum message size/);
  });
});
