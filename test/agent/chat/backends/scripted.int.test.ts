import { describe, expect, it } from 'vitest';
import type { ChatRequest } from '../../../../src/agent/chat/backend.ts';
import { openScriptedBackend } from '../../../../src/agent/chat/backends/scripted.ts';
import { canonicalJson, type JsonObject } from '../../../../src/base/json.ts';
import { chat, never } from './provider-server.ts';

const FILE = '/somewhere/turns.json';

function open(script: unknown) {
  const text = typeof script === 'string' ? script : JSON.stringify(script);
  return openScriptedBackend('replay', FILE, (path) => (path === FILE ? text : expect.fail(path)));
}

function play(...turns: unknown[]) {
  return open({ turns });
}

async function say(backend: { complete: Awaited<ReturnType<typeof open>>['complete'] }, request: ChatRequest) {
  const body = await backend.complete(request, never);
  return (body as { choices: [{ message: JsonObject }] }).choices[0].message.content;
}

describe('a reply', () => {
  it('of text is a whole completion, always alike [chat.backend.scripted]', async () => {
    const backend = await play({ reply: { content: 'hello' } });
    expect(canonicalJson(await backend.complete(chat(), never))).toBe(
      '{"choices":[{"finish_reason":"stop","index":0,"message":{"content":"hello","role":"assistant"}}],' +
        '"created":0,"id":"scripted-1","model":"scripted","object":"chat.completion","usage":{"completion_tokens":0,"prompt_tokens":0,"total_tokens":0}}',
    );
  });

  it('of tool calls has their arguments as text, given as object or raw [chat.backend.scripted]', async () => {
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
    const backend = await open({
      model: 'tiny',
      turns: [
        {
          reply: {
            tool_calls: [
              { id: 'call_1', name: 'sum', arguments: { b: 2, a: [1, null] } },
              { id: 'call_2', name: 'sum', arguments: '{broken' },
            ],
            usage,
          },
        },
      ],
    });
    expect(backend.model).toBe('tiny');
    await expect(backend.complete(chat(), never)).resolves.toMatchObject({
      model: 'tiny',
      usage,
      choices: [
        {
          finish_reason: 'tool_calls',
          message: {
            content: null,
            tool_calls: [
              { id: 'call_1', type: 'function', function: { name: 'sum', arguments: '{"a":[1,null],"b":2}' } },
              { id: 'call_2', type: 'function', function: { name: 'sum', arguments: '{broken' } },
            ],
          },
        },
      ],
    });
  });

  it('that is an error fails as a provider would [chat.backend.scripted]', async () => {
    const backend = await play({ error: { status: 429, message: 'slow down' } });
    await expect(backend.complete(chat(), never)).rejects.toMatchObject({
      code: 'rate_limited',
      status: 429,
      retryable: true,
      message: 'backend "replay" responded with status 429: slow down',
    });
  });
});

describe('turns', () => {
  it('are used in the order of the file, each once [chat.backend.scripted]', async () => {
    const backend = await play({ reply: { content: '1' } }, { reply: { content: '2' } });
    expect(await say(backend, chat())).toBe('1');
    expect(await say(backend, chat())).toBe('2');
    await expect(backend.complete(chat(), never)).rejects.toMatchObject({ code: 'script_unmatched' });
  });

  it('with repeat are used any number of times [chat.backend.scripted]', async () => {
    const backend = await play(
      { when: { content: 'once' }, reply: { content: 'first' } },
      { reply: { content: 'again' }, repeat: true },
    );
    expect(await say(backend, chat())).toBe('again');
    expect(await say(backend, chat('once'))).toBe('first');
    expect(await say(backend, chat('once'))).toBe('again');
  });

  it('that fail are used up too [chat.backend.scripted]', async () => {
    const backend = await play({ error: { status: 500, message: 'x' } }, { reply: { content: 'fine' } });
    await expect(backend.complete(chat(), never)).rejects.toThrow('500');
    expect(await say(backend, chat())).toBe('fine');
  });

  const tool = (name: string) => ({ type: 'function', function: { name } });
  const afterTool: ChatRequest = {
    messages: [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: null },
      { role: 'tool', tool_call_id: 'call_1', content: 'result 42' },
    ],
    tools: [tool('sum'), tool('read')],
  };

  it.each<[unknown, ChatRequest, boolean]>([
    [{}, chat(), true],
    [{ role: 'user' }, chat(), true],
    [{ role: 'user' }, afterTool, false],
    [{ role: 'tool' }, afterTool, true],
    [{ content: 'hi' }, chat('hi'), true],
    [{ content: 'hi' }, chat('hi there'), false],
    [{ content: { contains: 'the' } }, chat('hi there'), true],
    [{ content: { contains: 'The' } }, chat('hi there'), false],
    [{ content: { matches: '^result \\d+$' } }, afterTool, true],
    [{ content: { matches: '^\\d+$' } }, afterTool, false],
    [{ content: 'a\nb' }, { messages: [{ role: 'user', content: [{ text: 'a' }, { text: 'b' }] }] }, true],
    [{ tool_call_id: 'call_1' }, afterTool, true],
    [{ tool_call_id: 'call_2' }, afterTool, false],
    [{ messages: 3 }, afterTool, true],
    [{ messages: 1 }, afterTool, false],
    [{ tools: ['sum'] }, afterTool, true],
    [{ tools: ['read', 'sum'] }, afterTool, true],
    [{ tools: ['sum', 'write'] }, afterTool, false],
    [{ tools: ['sum'] }, chat(), false],
    [{ no_tools: true }, chat(), true],
    [{ no_tools: true }, afterTool, false],
    [{ role: 'tool', messages: 3, tools: ['sum'], content: { contains: '42' } }, afterTool, true],
    [{ role: 'tool', messages: 4, tools: ['sum'], content: { contains: '42' } }, afterTool, false],
  ])('with %j and the request %j match: %s [chat.backend.scripted]', async (when, request, matches) => {
    const backend = await play({ when, reply: { content: 'matched' } });
    if (matches) expect(await say(backend, request)).toBe('matched');
    else await expect(backend.complete(request, never)).rejects.toMatchObject({ code: 'script_unmatched' });
  });

  it('that do not match are an error that shows what came and what is left', async () => {
    const backend = await play(
      { when: { role: 'user' }, reply: { content: 'used' } },
      { when: { content: 'other' }, reply: { content: 'x' } },
      { when: { tools: ['write'] }, reply: { content: 'x' } },
    );
    await say(backend, chat());
    const error = await backend.complete(afterTool, never).catch((reason) => reason);
    expect(error).toMatchObject({ name: 'BackendError', code: 'script_unmatched', retryable: false });
    expect(error.message).toBe(
      'script turns.json: no unused turn matches; received: message 3, role tool tool_call_id call_1, ' +
        'content "result 42", tools offered: sum, read; ' +
        'unused turns: turns[1] when {"content":"other"}; turns[2] when {"tools":["write"]}',
    );
  });

  it('left over are shown up to a bound', async () => {
    const backend = await play(
      ...Array.from({ length: 15 }, (_, i) => ({ when: { messages: 100 + i }, reply: { content: '' } })),
    );
    const error = await backend.complete(chat('x'.repeat(1000)), never).catch((reason) => reason);
    expect(error.message).toContain('turns[9]');
    expect(error.message).not.toContain('turns[10]');
    expect(error.message).toContain('and 5 more');
    expect(error.message.length).toBeLessThan(1000);
  });
});

describe('a delay', () => {
  it('ends when the caller aborts [chat.backend.scripted]', async () => {
    const backend = await play({ reply: { content: 'late' }, delay_ms: 600_000 });
    const controller = new AbortController();
    const answer = backend.complete(chat(), controller.signal);
    const reason = new Error('gone');
    controller.abort(reason);
    await expect(answer).rejects.toBe(reason);
  });

  it('ends when the backend is closed, and nothing runs after that [chat.backend.scripted]', async () => {
    const backend = await play({ reply: { content: 'late' }, delay_ms: 600_000 }, { reply: { content: 'x' } });
    const answer = backend.complete(chat(), never);
    answer.catch(() => {});
    await backend.close();
    await expect(answer).rejects.toMatchObject({ code: 'backend_closed' });
    await expect(backend.complete(chat(), never)).rejects.toMatchObject({ code: 'backend_closed' });
  });

  it('does not hold up other requests [chat.backend.scripted]', async () => {
    const backend = await play(
      { when: { content: 'slow' }, reply: { content: 'slow' }, delay_ms: 40 },
      { reply: { content: 'quick' } },
    );
    const order: unknown[] = [];
    await Promise.all(
      ['slow', 'x'].map(async (text) => {
        order.push(await say(backend, chat(text)));
      }),
    );
    expect(order).toEqual(['quick', 'slow']);
  });
});

describe('a script that is wrong', () => {
  const reply = { content: 'x' };
  const call = { id: 'a', name: 'b', arguments: {} };

  it.each<[unknown, string]>([
    ['{', `${FILE}: not valid JSON: `],
    [3, `${FILE}: expected a table, found a number`],
    [{}, `${FILE}: turns: is missing (expected a list)`],
    [{ turns: [] }, `${FILE}: turns: must be at least 1 long`],
    [{ turn: [] }, 'unknown key "turn", did you mean "turns"?'],
    [{ turns: [{ reply, when: { rolle: 'user' } }] }, 'turns[0].when: unknown key "rolle", did you mean "role"?'],
    [{ turns: [{ reply, when: { role: 'usr' } }] }, 'turns[0].when.role: expected one of "system", '],
    [{ turns: [{ reply, when: { role: 'usr' } }] }, 'found "usr", did you mean "user"?'],
    [
      { turns: [{ reply, when: { content: { starts: 'x' } } }] },
      'turns[0].when.content: expected a string, {"contains"',
    ],
    [
      { turns: [{ reply, when: { content: { matches: '(' } } }] },
      'turns[0].when.content.matches: Invalid regular expression',
    ],
    [
      { turns: [{ reply, when: { tools: ['a'], no_tools: true } }] },
      'turns[0].when: "tools" and "no_tools" cannot be combined',
    ],
    [{ turns: [{ reply, when: { no_tools: false } }] }, 'turns[0].when.no_tools: expected true'],
    [{ turns: [{ reply }, {}] }, 'turns[1]: needs exactly one of "reply" and "error"'],
    [{ turns: [{ reply, error: { status: 500, message: '' } }] }, 'turns[0]: needs exactly one of'],
    [{ turns: [{ reply: {} }] }, 'turns[0].reply: needs "content", "tool_calls" or both'],
    [
      { turns: [{ reply: { tool_calls: [call, call] } }] },
      'turns[0].reply.tool_calls: two tool calls have the same id',
    ],
    [
      { turns: [{ reply: { tool_calls: [{ ...call, arguments: 3 }] } }] },
      'tool_calls[0].arguments: expected an object or a string',
    ],
    [{ turns: [{ error: { status: 200, message: 'x' } }] }, 'turns[0].error.status: must be at least 400, found 200'],
    [{ turns: [{ reply, delay_ms: -1 }] }, 'turns[0].delay_ms: must be at least 0, found -1'],
  ])('%j is refused: %s', async (script, complaint) => {
    const error = await open(script).catch((reason) => reason);
    expect(error).toMatchObject({ name: 'BackendError', code: 'bad_script', retryable: false });
    expect(error.message).toContain(complaint);
    expect(error.message.startsWith(FILE)).toBe(true);
  });

  it('is not there', async () => {
    const missing = openScriptedBackend('replay', FILE, () => {
      throw Object.assign(new Error('no such file'), { code: 'ENOENT' });
    });
    await expect(missing).rejects.toMatchObject({
      code: 'bad_script',
      message: `${FILE}: the script cannot be read (ENOENT)`,
    });
  });
});
