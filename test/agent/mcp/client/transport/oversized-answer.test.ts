import { describe, expect, it } from 'vitest';
import { answeredRequest, beginningOfText } from '../../../../../src/agent/mcp/client/transport/oversized-answer.ts';

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
