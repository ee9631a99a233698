import fc from 'fast-check';
import { expect, it } from 'vitest';
import { requestBody } from '../../../../src/agent/chat/backends/request-body.ts';
import type { JsonObject } from '../../../../src/base/json.ts';

const json = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<JsonObject[string]>;
const object = fc.dictionary(fc.string(), json) as fc.Arbitrary<JsonObject>;

it('is the JSON of the request, whatever is in it', () => {
  const request = fc.record({
    model: fc.string(),
    messages: fc.array(object),
    tools: fc.array(json),
    temperature: json,
  });
  fc.assert(
    fc.property(request, (given) => {
      const same = JSON.stringify(given);
      expect(requestBody(given)).toBe(same);
      expect(requestBody({ ...given })).toBe(same); // now from what was kept
    }),
  );
});

it('reads a message once, however many requests it is sent in', () => {
  let reads = 0;
  const message = {
    role: 'user',
    get content() {
      reads++;
      return 'hi';
    },
  };
  const messages: JsonObject[] = [message];
  requestBody({ messages });
  messages.push({ role: 'assistant', content: 'hello' });
  expect(requestBody({ messages })).toBe(
    '{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}',
  );
  expect(reads).toBe(1);
});

it('writes a list anew that lost something', () => {
  const messages: JsonObject[] = [{ content: 'a' }, { content: 'b' }];
  requestBody({ messages });
  messages.pop();
  expect(requestBody({ messages })).toBe('{"messages":[{"content":"a"}]}');
  messages[0] = { content: 'c' };
  expect(requestBody({ messages })).toBe('{"messages":[{"content":"c"}]}');
  messages.pop();
  expect(requestBody({ messages })).toBe('{"messages":[]}');
});
