import { describe, expect, it } from 'vitest';
import { scriptOf } from '../../../../src/agent/chat/backends/journal-script.ts';
import { checkScript } from '../../../../src/agent/chat/backends/script-schema.ts';
import { playScript } from '../../../../src/agent/chat/backends/scripted.ts';
import type { TimedRecord } from '../../../../src/runtime/durable/journal.ts';

const asked = (call: number, n: number, last?: object) => ({
  ...{ t: 'model.asked', call, n, backend: 'b', model: 'm', sha256: '', revision: null, ms: 0 },
  ...(last === undefined ? {} : { last }),
});
const answered = (call: number, n: number, rest: object) => ({ t: 'model.answered', call, n, ms: 0, ...rest });
const says = (content: string) => ({ body: { choices: [{ message: { content } }] } });
const wants = (id: string, args: string) => ({
  body: { choices: [{ message: { content: null, tool_calls: [{ id, function: { name: 't', arguments: args } }] } }] },
});
const script = (...records: object[]) => scriptOf(records as unknown as TimedRecord[]);

describe('a script made of a journal', () => {
  it('takes the turns in the order they were asked for, and arguments as they were written', () => {
    const made = script(
      asked(1, 0, { role: 'user', text: 'a' }),
      asked(2, 0, { role: 'user', text: 'b' }),
      answered(2, 0, says('second')),
      answered(1, 0, wants('x', '{"a":1}')),
      asked(1, 1, { role: 'tool', tool_call_id: 'x' }),
      answered(1, 1, wants('y', '{"b": 1, "a": 2}')),
    );
    expect(made).toEqual({
      model: 'm',
      turns: [
        { when: { role: 'user' }, reply: { tool_calls: [{ id: 'x', name: 't', arguments: { a: 1 } }] } },
        { when: { role: 'user' }, reply: { content: 'second' } },
        {
          when: { role: 'tool', tool_call_id: 'x' },
          reply: { tool_calls: [{ id: 'y', name: 't', arguments: '{"b": 1, "a": 2}' }] },
        },
      ],
    });
    expect(checkScript('made', made)).toHaveProperty('document');
  });

  it('leaves out what was never answered, and takes what a later attempt got', () => {
    const made = script(asked(1, 0), asked(1, 0), answered(1, 0, says('at last')), asked(2, 0));
    expect(made.turns).toEqual([{ reply: { content: 'at last' } }]);
  });

  it('knows of older journals which result a turn follows', () => {
    const made = script(asked(1, 0), answered(1, 0, wants('x', '{}')), asked(1, 1), answered(1, 1, says('')));
    expect(made.turns[1]).toEqual({ when: { role: 'tool', tool_call_id: 'x' }, reply: { content: '' } });
  });

  it.each([
    [
      { code: 'rate_limited', message: 'backend "b" responded with status 429: slow down', retryable: true },
      429,
      'slow down',
    ],
    [
      { code: 'rate_limited', message: 'backend "b" answered with status 429: slow down', retryable: true },
      429,
      'slow down',
    ],
    [{ code: 'timeout', message: 'gave no whole answer', retryable: true }, 408, 'gave no whole answer'],
    [{ code: 'stream_broken', message: 'broke off', retryable: true }, 503, 'broke off'],
    [{ code: 'bad_response', message: 'unusable', retryable: false }, 400, 'unusable'],
  ])('fails as the model did: %j', async (error, status, message) => {
    const made = script(asked(1, 0), answered(1, 0, { error }));
    expect(made.turns).toEqual([{ error: { status, message } }]);
    const backend = await playScript('b', 'made', made);
    const failed = backend.complete(
      { messages: [{ role: 'user', content: '' }] } as never,
      new AbortController().signal,
    );
    await expect(failed).rejects.toMatchObject({ retryable: error.retryable });
  });
});
