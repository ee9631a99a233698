import { describe, expect, it } from 'vitest';
import { EventStreamReader } from '../../../../../src/agent/mcp/client/transport/event-stream-reader.ts';

/** What a reader tells of a stream that comes in pieces of `size` bytes. */
function read(stream: string, size = Number.POSITIVE_INFINITY): unknown[] {
  const told: unknown[] = [];
  const reader = new EventStreamReader({
    maxMessageBytes: 40,
    message: (data) => told.push(data),
    eventId: (id) => told.push({ id }),
    retry: (ms) => told.push({ ms }),
    oversized: ({ bytes }) => told.push({ bytes }),
  });
  const bytes = Buffer.from(stream);
  for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
  return told;
}

describe('a stream of events', () => {
  it.each([
    ['one event', 'data: {"a":1}\n\n', ['{"a":1}']],
    [
      'two, with fields in any order',
      'data:x\nid:1\n\nid: 2\nevent: message\ndata: y\n\n',
      [{ id: '1' }, 'x', { id: '2' }, 'y'],
    ],
    ['data of several lines', 'data: a\ndata:  b\ndata\n\n', ['a\n b\n']],
    ['carriage returns', 'data: a\r\nid: 1\r\n\r\ndata: b\r\r\n', [{ id: '1' }, 'a', 'b']],
    ['a mark at its beginning', '\uFEFFdata: a\n\n\uFEFFdata: b\n\n', ['a']],
    ['comments and fields that nobody knows', ': hi\nfoo: bar\nbaz\n\ndata: a\n\n', ['a']],
    ['events of other kinds', 'event: ping\ndata: a\n\ndata: b\n\n', ['b']],
    ['an id without data, which is no event', 'id: 7\n\n', []],
    ['an id with empty data', 'id: 7\ndata: \n\n', [{ id: '7' }]],
    ['ids that are none', 'id\ndata: a\n\nid: 1\0\ndata: b\n\n', ['a', 'b']],
    ['a retry, and some that are none', 'retry: 50\nretry: -1\nretry: 1e3\nretry:\n\n', [{ ms: 50 }]],
    ['an event that does not end', 'data: a\n\ndata: b\n', ['a']],
    ['characters of several bytes', 'data: äß€😀\n\n', ['äß€😀']],
    ['a line beyond the bound', `data: ${'x'.repeat(50)}\n\ndata: a\n\n`, [{ bytes: 56 }, 'a']],
  ])('with %s', (_, stream, told) => {
    for (const size of [Number.POSITIVE_INFINITY, 1, 3]) expect(read(stream, size)).toEqual(told);
  });

  it('with an event beyond the bound in many lines is refused', () => {
    expect(() => read('data: 0123456789\n'.repeat(4))).toThrow(RangeError);
  });
});
