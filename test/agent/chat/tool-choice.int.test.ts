import { LLMock } from '@copilotkit/aimock';
import { afterEach, expect, it } from 'vitest';
import { openBackend } from '../../../src/agent/chat/backends/open-backend.ts';
import type { ScriptTurn } from '../../../src/agent/chat/backends/script-schema.ts';
import { ChatHistory } from '../../../src/agent/chat/history.ts';
import { runSend } from '../../../src/agent/chat/tool-loop.ts';
import type { JsonValue } from '../../../src/base/json.ts';
import { loadHostConfig } from '../../../src/config/host/host-config.ts';
import {
  AUTO_TOOL_CALL,
  HAND_BACK,
  newSession,
  send,
  setArena,
  setParam,
  writeTool,
} from '../../support/chat-calls.ts';
import { hasCallbacks } from '../../support/guest-binding.ts';
import { useGuests } from '../../support/use-guest.ts';

const openGuest = useGuests();
const forced = { type: 'function', function: { name: 'sum' } };

it.each([['none'], ['auto'], ['required'], [forced]])(
  'passes tool_choice %j on with the tools [chat.tool-choice]',
  async (choice) => {
    const guest = await openGuest();
    const fd = await newSession(guest);
    await writeTool(guest, fd, 'sum', -1);
    expect(await setParam(guest, fd, 'tool_choice', choice)).toBe(0);
    await send(guest, fd, HAND_BACK);
    await send(guest, fd);
    expect(guest.backend.requests.map(({ tool_choice }) => tool_choice)).toEqual([choice, choice]);
  },
);

it('leaves tool_choice out when no tools go with the request [chat.tool-choice]', async () => {
  const guest = await openGuest();
  const fd = await newSession(guest);
  expect(await setParam(guest, fd, 'tool_choice', 'auto')).toBe(0);
  await send(guest, fd, HAND_BACK);
  expect(guest.backend.requests[0]).not.toHaveProperty('tool_choice');
  expect(guest.backend.requests[0]).not.toHaveProperty('tools');
});

it('sends no tool_choice that was not set [chat.tool-choice]', async () => {
  const guest = await openGuest();
  const fd = await newSession(guest);
  await writeTool(guest, fd, 'sum', -1);
  await send(guest, fd);
  expect(guest.backend.requests[0]).toHaveProperty('tools');
  expect(guest.backend.requests[0]).not.toHaveProperty('tool_choice');
});

const allowed = (mode: string) => ({
  type: 'allowed_tools',
  allowed_tools: { mode, tools: [{ type: 'function', function: { name: 'sum' } }] },
});
const callsTwice: readonly ScriptTurn[] = [
  { reply: { tool_calls: [{ id: 'a', name: 'sum', arguments: {} }] } },
  { reply: { tool_calls: [{ id: 'b', name: 'sum', arguments: {} }] } },
  { reply: { content: 'done' }, repeat: true },
];
const afterwards: [choice: JsonValue, then: JsonValue | undefined][] = [
  ['auto', 'auto'],
  ['required', undefined],
  [forced, undefined],
  [allowed('required'), allowed('auto')],
];

if (hasCallbacks())
  it.each(afterwards)('sends %j once, and after the first result %j [chat.tool-choice]', async (choice, then) => {
    const guest = await openGuest({ turns: callsTwice });
    const fd = await newSession(guest);
    await setArena(guest, fd, 1024);
    await writeTool(
      guest,
      fd,
      'sum',
      guest.tool((call) => call.answer('3')),
    );
    await setParam(guest, fd, 'tool_choice', choice);
    await send(guest, fd, AUTO_TOOL_CALL);
    await send(guest, fd, AUTO_TOOL_CALL);
    expect(guest.backend.requests.map(({ tool_choice }) => tool_choice)).toEqual([choice, then, then, choice]);
  });

it.each(afterwards)('holds %j in handed-back rounds to the first request [chat.tool-choice]', async (choice, then) => {
  const guest = await openGuest({ turns: callsTwice });
  const fd = await newSession(guest);
  await writeTool(guest, fd, 'sum', -1);
  await setParam(guest, fd, 'tool_choice', choice);
  for (const id of ['a', 'b', null]) {
    await send(guest, fd, HAND_BACK);
    if (id !== null) await guest.call('cchat_write_tool_result', fd, ...guest.text(id), ...guest.text('3'));
  }
  await send(guest, fd, HAND_BACK);
  expect(guest.backend.requests.map(({ tool_choice }) => tool_choice)).toEqual([choice, then, then, choice]);
});

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

it.each([['required'], [forced]])(
  'a model that obeys %j comes to an answer after the result [chat.tool-choice]',
  async (choice) => {
    const provider = new LLMock({ port: 0 });
    const isForced = ({ tool_choice: told }: { tool_choice?: unknown }) => told !== undefined && told !== 'auto';
    provider.on({ predicate: isForced }, { toolCalls: [{ id: 'call_s', name: 'sum', arguments: '{}' }] });
    provider.on({ predicate: (request) => !isForced(request) }, { content: 'It is 3.' });
    await provider.start();
    closers.push(() => provider.stop());
    const config = await loadHostConfig({ env: { OPENAI_BASE_URL: `${provider.url}/v1`, OPENAI_API_KEY: 'mock-key' } });
    const compiled = config.backends.get(config.defaultBackend);
    if (compiled === undefined) return expect.fail('no backend');
    const backend = await openBackend(compiled, { proxy: config.proxy });
    closers.push(() => backend.close());
    const history = new ChatHistory();
    const params: [string, JsonValue][] = [
      ['model', 'gpt-4o'],
      ['tool_choice', choice],
    ];
    history.apply({ messages: [['user', '1 + 2?']], tools: [[1, '{"name":"sum"}']], toolResults: [], params });
    const observer = {
      toolStarted: () => {},
      toolFinished: () => {},
      limitReached: () => {},
      modelAnswered: () => {},
      failed: () => {},
    };
    const { body } = await runSend(
      history,
      AUTO_TOOL_CALL,
      {
        backend: async () => backend,
        session: 'chat-1',
        timeLeftMs: () => 60_000,
        tools: null,
        events: null,
        observer,
        callGuestTool: async () => ({ rc: 0, content: '3' }),
      },
      new AbortController().signal,
    );
    expect(JSON.parse(body)).toMatchObject({
      choices: [{ message: { content: 'It is 3.' } }],
    });
    expect(provider.getRequests()).toHaveLength(2);
  },
);
