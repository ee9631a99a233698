import { expect, it } from 'vitest';
import type { ChatBackend, ChatRequest } from '../../../src/agent/chat/backend.ts';
import { ChatHistory } from '../../../src/agent/chat/history.ts';
import { type InjectedTools, noInjectedTools } from '../../../src/agent/chat/injected-tools.ts';
import { AUTO_TOOL_CALL, runSend } from '../../../src/agent/chat/tool-loop.ts';
import type { JsonObject } from '../../../src/base/json.ts';

const completion = (message: JsonObject): JsonObject => ({ choices: [{ message: { role: 'assistant', ...message } }] });
const call = { id: 'call_1', type: 'function', function: { name: 'nobody', arguments: '{}' } };

/** A fake model that calls a tool twice, and what it was sent: the lists themselves, and what they held. */
async function sendTwoTurns(systemMessage: string | null) {
  const lists: JsonObject[][] = [];
  const seen: ChatRequest[] = [];
  const backend: ChatBackend = {
    name: 'fake',
    model: 'm',
    complete: async (request) => {
      lists.push(request.messages);
      seen.push(structuredClone(request));
      return completion(seen.length < 3 ? { content: null, tool_calls: [call] } : { content: 'done' });
    },
    close: async () => {},
  };
  const history = new ChatHistory();
  history.apply({
    params: [['messages', 'the guest’s own']],
    tools: [],
    toolResults: [],
    messages: [
      ['system', 'be brief'],
      ['user', 'hi'],
    ],
  });
  const tools: InjectedTools = { ...noInjectedTools, systemMessage };
  const nothing = () => {};
  const observer = {
    toolStarted: nothing,
    toolFinished: nothing,
    limitReached: nothing,
    modelAnswered: nothing,
    failed: nothing,
  };
  await runSend(
    history,
    AUTO_TOOL_CALL,
    {
      backend: async () => backend,
      callGuestTool: async () => ({ rc: 0, content: '' }),
      tools: { inject: async () => tools },
      events: null,
      session: 'chat-1',
      observer,
      timeLeftMs: () => 1_000,
    },
    new AbortController().signal,
  );
  return { lists, seen, history };
}

const roles = (messages: readonly JsonObject[]) => messages.map(({ role }) => role).join(' ');

it.each([null, 'tools of this send'])(
  'no turn of a send copies what was said before it (system message: %s)',
  async (text) => {
    const { lists, seen, history } = await sendTwoTurns(text);
    expect(lists).toHaveLength(3);
    expect(new Set(lists).size).toBe(1);
    const first = text === null ? 'system user' : 'system system user';
    expect(seen.map(({ messages }) => roles(messages))).toEqual([
      first,
      `${first} assistant tool`,
      `${first} assistant tool assistant tool`,
    ]);
    expect(roles(history.messages)).toBe('system user assistant tool assistant tool assistant');
  },
);

it('a parameter of the guest does not take the place of the messages', async () => {
  const { seen } = await sendTwoTurns(null);
  expect(roles(seen[0]?.messages ?? [])).toBe('system user');
});
