import { describe, expect, it, onTestFinished } from 'vitest';
import type { ImagePlacement } from '../../../src/agent/chat/backend.ts';
import { OpenAiBackend } from '../../../src/agent/chat/backends/openai.ts';
import { ChatHistory, MAX_RESULT_IMAGES, resultMessages, takeImages } from '../../../src/agent/chat/history.ts';
import { AUTO_TOOL_CALL, runSend, type SendPorts } from '../../../src/agent/chat/tool-loop.ts';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import type { JsonObject, JsonValue } from '../../../src/base/json.ts';
import { NO_PROXY } from '../../../src/config/host/proxy.ts';
import { compiledBackend, completionBody, ProviderServer } from '../chat/backends/provider-server.ts';
import { npmServer, stdioRecord } from './client/pool-samples.ts';
import { never, openHost } from './mcp-host.ts';

const paint = encodedName('everything', 'get-tiny-image');

/** The messages of the request after the model called the tool that paints, twice in one turn. */
async function messagesAfterPainting(images: ImagePlacement): Promise<JsonObject[]> {
  const host = await openHost([stdioRecord('everything', npmServer('everything'), { args: ['stdio'] })]);
  const tool_calls = ['a', 'b'].map((id) => ({ id, type: 'function', function: { name: paint, arguments: '{}' } }));
  const calling = { choices: [{ message: { role: 'assistant', content: null, tool_calls } }] };
  const provider = await ProviderServer.start((response, _seen, count) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(count === 1 ? calling : completionBody('a square')));
  });
  const backend = new OpenAiBackend(compiledBackend(provider.baseUrl, { images }), { proxy: NO_PROXY });
  onTestFinished(async () => {
    await backend.close();
    await provider.stop();
  });
  const ports: SendPorts = {
    backend: async () => backend,
    tools: host.guest(),
    session: 'chat-1',
    events: null,
    timeLeftMs: () => 60_000,
    observer: {
      toolStarted: () => {},
      toolFinished: () => {},
      limitReached: () => {},
      modelAnswered: () => {},
      failed: (error) => expect(error).toBeUndefined(),
    },
    callGuestTool: async () => ({ rc: 0, content: '' }),
  };
  const history = new ChatHistory();
  history.apply({ messages: [['user', 'paint']], tools: [], toolResults: [], params: [] });
  const { body } = await runSend(history, AUTO_TOOL_CALL, ports, never);
  expect(JSON.parse(body)).toMatchObject({ choices: [{ message: { content: 'a square' } }] });
  const messages = provider.requests[1]?.body.messages as JsonObject[];
  expect(history.messages.slice(0, messages.length)).toEqual(messages);
  return messages;
}

const roles = (messages: readonly JsonObject[]) => messages.map(({ role }) => role);
const partsOf = (message: JsonObject | undefined) => message?.content as JsonObject[];
const types = (parts: readonly JsonObject[]) => parts.map(({ type }) => type);
const picture = { type: 'image_url', image_url: { url: expect.stringMatching(/^data:image\/png;base64,iVBOR/) } };

describe('an image in the result of a tool', () => {
  it('is left as it is for a backend that takes none [chat.images]', async () => {
    const messages = await messagesAfterPainting('none');
    expect(roles(messages)).toEqual(['user', 'assistant', 'tool', 'tool']);
    expect(messages[2]?.content).toContain('"type":"image"');
  });

  it('follows the results in one message of the user [chat.images]', async () => {
    const messages = await messagesAfterPainting('user_message');
    expect(roles(messages)).toEqual(['user', 'assistant', 'tool', 'tool', 'user']);
    expect(messages[3]).toMatchObject({
      tool_call_id: 'b',
      content: expect.stringContaining('image 1 of this result'),
    });
    expect(messages[3]?.content).not.toContain('iVBOR');
    const parts = partsOf(messages[4]);
    expect(types(parts)).toEqual(['text', 'image_url', 'text', 'image_url']);
    expect(parts[0]?.text).toBe(`Images of the result of tool call a (${paint}):`);
    expect(parts[3]).toEqual(picture);
  });

  it('is part of its result where the backend takes it there [chat.images]', async () => {
    const messages = await messagesAfterPainting('tool_message');
    expect(roles(messages)).toEqual(['user', 'assistant', 'tool', 'tool']);
    for (const message of messages.slice(2)) {
      expect(types(partsOf(message))).toEqual(['text', 'image_url']);
      expect(partsOf(message)[1]).toEqual(picture);
    }
  });

  const image = (fields: object = {}) => ({ type: 'image', data: 'aGk=', mimeType: 'image/png', ...fields });
  const result = (...content: JsonValue[]) => JSON.stringify({ content });

  it.each<[string, string]>([
    ['a type that is no image', result(image({ mimeType: 'text/html' }))],
    ['a type that goes on', result(image({ mimeType: 'image/png;charset=x,' }))],
    ['data that is no base64', result(image({ data: '"><svg>' }))],
    ['no data', result({ type: 'image', mimeType: 'image/png' })],
    ['another kind', result({ type: 'audio', data: 'aGk=', mimeType: 'audio/wav' })],
    ['no JSON', 'an "type":"image" {'],
  ])('is none with %s: the result stays as it is [chat.images]', (_what, json) => {
    expect(takeImages(json)).toEqual({ text: json, images: [] });
  });

  it('is one of so many, and the rest stays', () => {
    const { text, images } = takeImages(result(...Array.from({ length: MAX_RESULT_IMAGES + 1 }, () => image())));
    expect(images).toHaveLength(MAX_RESULT_IMAGES);
    expect(text.match(/"type":"image"/g)).toHaveLength(1);
  });

  it('stands after the results of a turn whose other calls were handed back [chat.images]', () => {
    const { text, images: parts } = takeImages(result(image()));
    const call = { name: 'paint', arguments: '{}' };
    const painted = { ...call, id: 'a', result: text, images: { parts, placement: 'user_message' as const } };
    const history = new ChatHistory();
    const open = { ...call, id: 'b', result: undefined };
    history.openTurn = { calls: [painted, open], handedBack: [open], handedBackAt: 0, iterations: 1, toolCalls: 2 };
    history.apply({ messages: [['user', 'go on']], tools: [], toolResults: [['b', 'mine']], params: [] });
    expect(roles(history.messages)).toEqual(['tool', 'tool', 'user', 'user']);
    expect(resultMessages([painted])).toHaveLength(2);
  });
});
