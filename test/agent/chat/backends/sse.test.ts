import fc from 'fast-check';
import { expect, it } from 'vitest';
import { SseDecoder } from '../../../../src/agent/chat/backends/read-answer.ts';

function decode(...portions: (string | Uint8Array)[]): string[] {
  const decoder = new SseDecoder();
  const events = portions.flatMap((portion) => decoder.push(Buffer.from(portion)));
  const rest = decoder.end();
  return rest === undefined ? events : [...events, `rest:${rest}`];
}

it.each<[string, string, string[]]>([
  ['a line feed', 'data: a\n\ndata: b\n\n', ['a', 'b']],
  ['CRLF', 'data: a\r\n\r\ndata: b\r\n\r\n', ['a', 'b']],
  // Whether the last carriage return is half of a CRLF shows only in what follows.
  ['a carriage return alone', 'data: a\r\rdata: b\r\r', ['a', 'rest:b']],
  ['no space after the colon', 'data:a\n\n', ['a']],
  ['two spaces, of which one is data', 'data:  a\n\n', [' a']],
  ['several data lines', 'data: {"a":\ndata: 1}\n\n', ['{"a":\n1}']],
  ['comments', ': ping\n\n:\ndata: a\n: in between\n\n', ['a']],
  ['other fields', 'event: x\nid: 1\nretry: 5\nnonsense\ndata: a\n\n', ['a']],
  ['an event without data', 'event: x\n\ndata: a\n\n', ['a']],
  ['empty data', 'data\n\ndata:\n\n', ['', '']],
  ['a byte order mark', '\ufeffdata: a\n\n', ['a']],
  ['an end without a blank line', 'data: a\n\ndata: [DONE]', ['a', 'rest:[DONE]']],
  ['an end without a second line feed', 'data: a\n', ['rest:a']],
  ['blank lines only', '\n\n\r\n\r\n', []],
])('takes events apart with %s [chat.backend.stream]', (_, text, events) => {
  expect(decode(text)).toEqual(events);
  // The same, a byte at a time: CRLF and characters are split everywhere.
  expect(decode(...[...Buffer.from(text)].map((byte) => Uint8Array.of(byte)))).toEqual(events);
});

it('gives the same events however the bytes are portioned [chat.backend.stream]', () => {
  const line = fc.constantFrom('data: ä€😀', 'data:{"x":1}', ': c', 'event: e', '', '', 'data', 'data: [DONE]');
  const ending = fc.constantFrom('\n', '\r\n', '\r');
  const lines = fc.array(fc.tuple(line, ending), { maxLength: 20 });
  fc.assert(
    fc.property(lines, fc.array(fc.nat(300), { maxLength: 12 }), (parts, cuts) => {
      const bytes = Buffer.from(parts.map((part) => part.join('')).join(''));
      const places = [...new Set(cuts.map((cut) => Math.min(cut, bytes.length)))].sort((a, b) => a - b);
      const portions = [0, ...places].map((from, i) => bytes.subarray(from, places[i] ?? bytes.length));
      expect(decode(...portions)).toEqual(decode(bytes));
    }),
    { numRuns: 500 },
  );
});
