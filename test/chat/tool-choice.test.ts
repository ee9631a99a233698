import { expect, it } from 'vitest';
import { HAND_BACK, newSession, send, setParam, writeTool } from '../support/chat-calls.ts';
import { useGuests } from '../support/use-guest.ts';

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
