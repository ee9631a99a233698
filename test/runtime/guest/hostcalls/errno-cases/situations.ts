import { expect } from 'vitest';
import type { ScriptTurn } from '../../../../../src/agent/chat/backends/script-schema.ts';
import { HAND_BACK, newSession, send, setNonblocking, writeTool } from '../../../../support/chat-calls.ts';
import type { TestGuest } from '../../../../support/test-guest.ts';

/** A model that calls `tool` once for each user message, and then answers "done". */
export const callsTool = (tool: string): readonly ScriptTurn[] => [
  { when: { role: 'user' }, reply: { tool_calls: [{ id: 'call_1', name: tool, arguments: {} }] }, repeat: true },
  { reply: { content: 'done' }, repeat: true },
];

/** A session whose call `call_1` of the tool `sum` waits for the guest's answer. Needs {@link callsTool}. */
export async function handedBack(guest: TestGuest): Promise<number> {
  const fd = await newSession(guest);
  expect(await writeTool(guest, fd, 'sum', -1)).toBe(0);
  await send(guest, fd, HAND_BACK);
  return fd;
}

/** A response that stays pending. */
export async function pending(guest: TestGuest): Promise<number> {
  const fd = await newSession(guest);
  await setNonblocking(guest, fd);
  guest.backend.hold();
  return send(guest, fd);
}
