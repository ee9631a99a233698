import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  answeredRequest,
  beginningOfText,
  LineFramer,
} from '../../../../../src/agent/mcp/client/transport/line-framer.ts';

function frame(chunks: readonly (string | Buffer)[], maxBytes: number) {
  const lines: string[] = [];
  const oversized: { bytes: number; head: string; tail: string }[] = [];
  const framer = new LineFramer(maxBytes, {
    line: (bytes) => lines.push(bytes.toString()),
    oversized: ({ bytes, head, tail }) => oversized.push({ bytes, head: head.toString(), tail: tail.toString() }),
  });
  for (const chunk of chunks) framer.push(Buffer.from(chunk));
  return { lines, oversized, pending: framer.pendingBytes };
}

describe('lines', () => {
  it('come out whole however they are cut into chunks', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'grapheme', maxLength: 20 }).filter((text) => !text.includes('\n'))),
        fc.integer({ min: 1, max: 7 }),
        (lines, size) => {
          const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
          const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
            bytes.subarray(i * size, (i + 1) * size),
          );
          expect(frame(chunks, 10_000)).toEqual({ lines, oversized: [], pending: 0 });
        },
      ),
    );
  });

  it('may have exactly the bound', () => {
    expect(frame(['12345\n', '123456\n', '1\n'], 5)).toEqual({
      lines: ['12345', '1'],
      oversized: [{ bytes: 6, head: '123456', tail: '123456' }],
      pending: 0,
    });
  });

  it('beyond it leave their ends and nothing in between', () => {
    const chunks = ['a'.repeat(70_000), ...Array.from({ length: 40 }, () => 'b'.repeat(70_000)), 'end', '\nnext\n'];
    const { lines, oversized } = frame(chunks, 100_000);
    expect(lines).toEqual(['next']);
    expect(oversized).toHaveLength(1);
    expect(oversized[0]?.bytes).toBe(41 * 70_000 + 3);
    expect(oversized[0]?.head).toBe('a'.repeat(65_536));
    expect(oversized[0]?.tail).toBe(`${'b'.repeat(253)}end`);
  });
});

const line = (text: string) => {
  const bytes = Buffer.from(text);
  return { head: bytes.subarray(0, 64), tail: bytes.subarray(-64), bytes: bytes.length };
};
const filler = `"${'x'.repeat(1_000)}"`;

describe('the request that a huge answer belongs to', () => {
  it.each([
    ['id first', `{"jsonrpc":"2.0","id":7,"result":${filler}}`, 7],
    ['id alone first', `{"id":7,"result":${filler}}`, 7],
    ['id, then the version', `{"id":7,"jsonrpc":"2.0","error":${filler}}`, 7],
    ['an id of a tool call first', `{"jsonrpc":"2.0","id":"spear-7","result":${filler}}`, 'spear-7'],
    ['an id of a tool call last', `{"result":${filler},"jsonrpc":"2.0","id":"spear-7"}`, 'spear-7'],
    ['id last', `{"result":${filler},"jsonrpc":"2.0","id":7}`, 7],
    ['id before the version', `{"result":${filler},"id":7,"jsonrpc":"2.0"}`, 7],
    ['spaces', `{ "jsonrpc": "2.0", "id": 7, "result": ${filler} }`, 7],
    ['a request of the server', `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":${filler}}`, null],
    ['a notification', `{"jsonrpc":"2.0","method":"notifications/message","params":{"a":${filler},"id":7}}`, null],
    ['an id inside the result', `{"result":{"a":${filler},"id":7}}`, null],
    ['an id of another kind', `{"jsonrpc":"2.0","id":"7","result":${filler}}`, null],
    ['no JSON at all', 'x'.repeat(1_000), null],
  ])('%s', (_, text, id) => {
    expect(answeredRequest(line(text))).toBe(id);
  });
});

describe('the beginning of a text', () => {
  it.each([
    ['is found', '{"id":1,"result":{"content":[{"type":"text","text":"hello wor', 'hello wor'],
    ['is found without its type', '{"result":{"content":[{"text":"hello', 'hello'],
    ['ends where the text does', '{"result":{"content":[{"type":"text","text":"all of it"},{"type"', 'all of it'],
    ['keeps escapes', '{"result":{"content":[{"type":"text","text":"a\\n\\"b\\u00e4', 'a\n"bä'],
    ['drops half an escape', '{"result":{"content":[{"type":"text","text":"abc\\u00', 'abc'],
    ['drops a lone backslash', '{"result":{"content":[{"type":"text","text":"abc\\', 'abc'],
    ['is empty where there is no text', '{"result":{"content":[{"type":"image","data":"AAAA', ''],
    ['is empty where the text is not JSON', '{"result":{"content":[{"type":"text","text":"a\tb\\x', ''],
  ])('%s [pool.result.too-large]', (_, head, text) => {
    expect(beginningOfText(Buffer.from(head))).toBe(text);
  });

  it('drops half a character [pool.result.too-large]', () => {
    const head = Buffer.from('{"result":{"content":[{"type":"text","text":"ab€');
    expect(beginningOfText(head.subarray(0, -1))).toBe('ab');
  });
});
