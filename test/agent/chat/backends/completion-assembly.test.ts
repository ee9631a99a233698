import { describe, expect, it } from 'vitest';
import { CompletionAssembly } from '../../../../src/agent/chat/backends/read-answer.ts';
import type { JsonObject } from '../../../../src/base/json.ts';
import { deltaChunk } from './provider-server.ts';

function assemble(...chunks: JsonObject[]): JsonObject {
  const assembly = new CompletionAssembly();
  for (const chunk of chunks) assembly.add(chunk);
  return assembly.body();
}

function message(...chunks: JsonObject[]): unknown {
  const { choices } = assemble(...chunks) as { choices: { message: unknown }[] };
  return choices[0]?.message;
}

function callPart(index: number | undefined, part: { id?: string; name?: string; arguments?: string }): JsonObject {
  const { id, ...fn } = part;
  return deltaChunk({
    tool_calls: [{ ...(index === undefined ? {} : { index }), ...(id === undefined ? {} : { id }), function: fn }],
  });
}

describe('the assembled body', () => {
  it('is the chat.completion that the chunks add up to [chat.backend.stream]', () => {
    const body = assemble(
      { ...deltaChunk({ role: 'assistant', content: '' }), system_fingerprint: 'fp', obfuscation: 'xxxx' },
      deltaChunk({ content: 'Hel' }),
      deltaChunk({ content: 'lo' }),
      deltaChunk({}, 'stop'),
      { id: 'c1', choices: [], usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } },
    );
    expect(body).toEqual({
      id: 'c1',
      object: 'chat.completion',
      created: 7,
      model: 'm',
      system_fingerprint: 'fp',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Hello' } }],
      usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
    });
  });

  it('keeps several choices apart by index [chat.backend.stream]', () => {
    const { choices } = assemble(
      deltaChunk({ content: 'b' }, null, 1),
      deltaChunk({ content: 'a' }, null, 0),
      deltaChunk({ content: 'B' }, 'length', 1),
      deltaChunk({ content: 'A' }, 'stop', 0),
    );
    expect(choices).toEqual([
      { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'aA' } },
      { index: 1, finish_reason: 'length', message: { role: 'assistant', content: 'bB' } },
    ]);
  });

  it('has a refusal, and null for content that never came [chat.backend.stream]', () => {
    expect(message(deltaChunk({ refusal: 'I ' }), deltaChunk({ refusal: "can't" }))).toEqual({
      role: 'assistant',
      content: null,
      refusal: "I can't",
    });
  });

  it("keeps a provider's own parts: reasoning and logprobs are appended [chat.backend.stream]", () => {
    const chunk = (text: string) => ({
      choices: [
        {
          index: 0,
          delta: { reasoning_content: text },
          logprobs: { content: [{ token: text }], refusal: null },
          finish_reason: null,
        },
      ],
    });
    const body = assemble(chunk('a'), chunk('b'), deltaChunk({}, 'stop'));
    expect(body.choices).toEqual([
      {
        index: 0,
        finish_reason: 'stop',
        logprobs: { content: [{ token: 'a' }, { token: 'b' }], refusal: null },
        message: { role: 'assistant', content: null, reasoning_content: 'ab' },
      },
    ]);
  });

  it('does not let a chunk reach the prototype of all objects [chat.backend.stream]', () => {
    assemble(JSON.parse('{"choices":[{"index":0,"delta":{"__proto__":{"polluted":true}}}]}'));
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
    expect({}).not.toHaveProperty('polluted');
  });

  it.each<[string, JsonObject]>([
    ['no choices', {}],
    ['choices that are no list', { choices: 3 }],
    ['choices that are no objects', { choices: [1, null, 'x'] }],
    ['a delta that is no object', { choices: [{ delta: 3 }] }],
    ['tool calls that are no list', { choices: [{ delta: { tool_calls: 3 } }] }],
    ['tool calls that are no objects', { choices: [{ delta: { tool_calls: [3, null] } }] }],
    ['indexes that are none', { choices: [{ index: -1.5, delta: { tool_calls: [{ index: 'x' }] } }] }],
  ])('bears %s [chat.backend.stream]', (_, chunk) => {
    expect(assemble(chunk).object).toBe('chat.completion');
  });
});

describe('tool calls', () => {
  it('are merged by index, their arguments appended [chat.backend.stream]', () => {
    const merged = message(
      callPart(0, { id: 'call_a', name: 'sum', arguments: '' }),
      callPart(1, { id: 'call_b', name: 'read', arguments: '{"p' }),
      callPart(0, { arguments: '{"a":' }),
      callPart(1, { arguments: '":1}' }),
      callPart(0, { arguments: '2}' }),
      deltaChunk({}, 'tool_calls'),
    );
    expect(merged).toEqual({
      role: 'assistant',
      content: null,
      tool_calls: [
        { id: 'call_a', type: 'function', function: { name: 'sum', arguments: '{"a":2}' } },
        { id: 'call_b', type: 'function', function: { name: 'read', arguments: '{"p":1}' } },
      ],
    });
  });

  it('come in the order of their index, not of their arrival [chat.backend.stream]', () => {
    const merged = message(callPart(2, { id: 'late', name: 'b' }), callPart(0, { id: 'early', name: 'a' }));
    expect(merged).toMatchObject({ tool_calls: [{ id: 'early' }, { id: 'late' }] });
  });

  it('may have their name in pieces or repeated, and their id repeated [chat.backend.stream]', () => {
    const pieces = message(callPart(0, { id: 'x', name: 'get_' }), callPart(0, { name: 'weather', arguments: '{}' }));
    const repeated = message(
      callPart(0, { id: 'x', name: 'get_weather', arguments: '{' }),
      callPart(0, { id: 'x', name: 'get_weather', arguments: '}' }),
    );
    expect(pieces).toEqual(repeated);
    expect(pieces).toMatchObject({
      tool_calls: [{ id: 'x', function: { name: 'get_weather', arguments: '{}' } }],
    });
  });

  it('without an index begin with a new id [chat.backend.stream]', () => {
    const merged = message(
      callPart(undefined, { id: 'x', name: 'a', arguments: '{' }),
      callPart(undefined, { arguments: '}' }),
      callPart(undefined, { id: 'y', name: 'b', arguments: '[' }),
      callPart(undefined, { id: 'y', arguments: ']' }),
    );
    expect(merged).toMatchObject({
      tool_calls: [
        { id: 'x', function: { name: 'a', arguments: '{}' } },
        { id: 'y', function: { name: 'b', arguments: '[]' } },
      ],
    });
  });
});

it('is finished when every choice has its reason [chat.backend.stream]', () => {
  const assembly = new CompletionAssembly();
  expect(assembly.finished).toBe(false);
  assembly.add(deltaChunk({ content: 'a' }, 'stop', 0));
  expect(assembly.finished).toBe(true);
  assembly.add(deltaChunk({ content: 'b' }, null, 1));
  expect(assembly.finished).toBe(false);
  assembly.add(deltaChunk({}, 'stop', 1));
  expect(assembly.finished).toBe(true);
});
