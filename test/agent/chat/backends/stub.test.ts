import { expect, it, vi } from 'vitest';
import { StubBackend } from '../../../../src/agent/chat/backends/open-backend.ts';
import { canonicalJson } from '../../../../src/base/json.ts';
import { chat, never } from './provider-server.ts';

it('answers by saying what it is and what it heard, always alike [chat.backend.stub]', async () => {
  const stub = new StubBackend({ name: 'stub' });
  const answer = canonicalJson(await stub.complete(chat('hello'), never));
  expect(answer).toBe(
    '{"choices":[{"finish_reason":"stop","index":0,"message":{"content":"[stub] no model is configured; you said: hello","role":"assistant"}}],' +
      '"created":0,"id":"stub","model":"stub","object":"chat.completion","usage":{"completion_tokens":0,"prompt_tokens":0,"total_tokens":0}}',
  );
  expect(canonicalJson(await stub.complete(chat('hello'), never))).toBe(answer);
});

it.each([
  [
    'the last user message',
    [
      { role: 'user', content: 'a' },
      { role: 'user', content: 'b' },
      { role: 'tool', content: 'c' },
    ],
    'b',
  ],
  [
    'its text parts',
    [{ role: 'user', content: [{ type: 'text', text: 'x' }, { type: 'image_url' }, { type: 'text', text: 'y' }] }],
    'x\ny',
  ],
  ['nothing without one', [{ role: 'system', content: 's' }], ''],
  ['nothing of null', [{ role: 'user', content: null }], ''],
  ['200 characters', [{ role: 'user', content: 'x'.repeat(200) }], 'x'.repeat(200)],
  ['200 characters and no half one', [{ role: 'user', content: `x${'😀'.repeat(100)}` }], `x${'😀'.repeat(99)}…`],
])('echoes %s [chat.backend.stub]', async (_, messages, echoed) => {
  const body = await new StubBackend({ name: 'stub' }).complete({ messages }, never);
  expect(body).toMatchObject({
    choices: [{ message: { content: `[stub] no model is configured; you said: ${echoed}` } }],
  });
});

it('says once that it is used [chat.backend.stub]', async () => {
  const onFirstUse = vi.fn();
  const stub = new StubBackend({ name: 'stub', onFirstUse });
  await expect(stub.complete(chat(), AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone');
  expect(onFirstUse).not.toHaveBeenCalled();
  await stub.complete(chat(), never);
  await stub.complete(chat(), never);
  expect(onFirstUse).toHaveBeenCalledOnce();
});
