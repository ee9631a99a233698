import { describe, expect, it } from 'vitest';
import {
  EventStreamFilter,
  EventStreamReader,
  MAX_EMPTY_STREAMS,
  MIN_DELAY_MS,
  ResumePace,
} from '../../../../../src/agent/mcp/client/transport/event-stream.ts';

/** Events of a reader for a stream in chunks of `size` bytes. */
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

const delays = (pace: ResumePace, wanted: number | null, count: number) =>
  Array.from({ length: count }, () => pace.nextMs(wanted));

it('a server that wants to be asked at once is asked ever less often, down to once a second', () => {
  expect(delays(new ResumePace(), 0, 8)).toEqual([100, 150, 225, 337.5, 506.25, 759.375, 1_000, 1_000]);
});

it('a server that wants a pause gets it, within reason', () => {
  expect(delays(new ResumePace(), 5_000, 20)).toEqual(Array.from({ length: 20 }, () => 5_000));
  expect(delays(new ResumePace(), null, 2)).toEqual([1_000, 1_000]);
  expect(new ResumePace().nextMs(2 ** 40)).toBe(600_000);
});

it('a stream that brought something starts over, one that never does is given up', () => {
  const pace = new ResumePace();
  delays(pace, 0, 5);
  pace.reset();
  expect(pace.nextMs(0)).toBe(MIN_DELAY_MS);
  delays(pace, 0, MAX_EMPTY_STREAMS - 1);
  expect(pace.nextMs(0)).toBeNull();
});
