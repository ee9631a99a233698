import { expect } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/base/json.ts';
import type { TestGuest } from './test-guest.ts';

export const METRICS = 1;
export const AUTO_TOOL_CALL = 2;
export const HAND_BACK = 4;
export const STREAM = 8;

export const SET_PARAM = 1;
export const GET_METRICS = 2;

export const fdCommand = { SET_FLAGS: 1, GET_FLAGS: 2, GET_KIND: 3, GET_STATUS: 4, GET_METRICS: 5, CLOSE: 6 } as const;

/** More than any body of the tests. */
const BODY_BYTES = 65_536;

/** A session with one user message. */
export async function newSession(guest: TestGuest, message = 'hi'): Promise<number> {
  const fd = await guest.call('cchat_create');
  expect(fd).toBeGreaterThanOrEqual(1000);
  expect(await say(guest, fd, 'user', message)).toBe(0);
  return fd;
}

export function say(guest: TestGuest, fd: number, role: string, content: string): Promise<number> {
  return guest.call('cchat_write_msg', fd, ...guest.text(role), ...guest.text(content));
}

export function setParam(guest: TestGuest, fd: number, key: string, value: JsonValue): Promise<number> {
  return guest.call('cchat_ctl', fd, SET_PARAM, ...guest.heap.arg(JSON.stringify({ key, value })));
}

export function writeTool(guest: TestGuest, fd: number, name: string, index: number): Promise<number> {
  return guest.call('cchat_write_fn', fd, index, ...guest.text(JSON.stringify({ name })));
}

/** Sets memory aside for the callbacks of a session. */
export async function setArena(
  guest: TestGuest,
  fd: number,
  length: number,
  ptr = guest.heap.alloc(length),
): Promise<number> {
  expect(await setParam(guest, fd, 'tool_arena_ptr', ptr)).toBe(0);
  expect(await setParam(guest, fd, 'tool_arena_len', length)).toBe(0);
  return ptr;
}

export async function setNonblocking(guest: TestGuest, fd: number): Promise<void> {
  const flags = guest.heap.arg('{"set":["O_NONBLOCK"]}');
  expect(await guest.call('spear_fd_ctl', fd, fdCommand.SET_FLAGS, ...flags)).toBe(0);
}

/** A blocking send; its response descriptor. */
export async function send(guest: TestGuest, fd: number, flags = 0): Promise<number> {
  const response = await guest.call('cchat_send', fd, flags);
  expect(response).toBeGreaterThanOrEqual(1000);
  return response;
}

export async function recv(guest: TestGuest, response: number): Promise<string> {
  const out = guest.heap.out(BODY_BYTES);
  const length = await guest.call('cchat_recv', response, ...out.args);
  expect(length).toBe(out.length);
  return out.text();
}

/** The events that one `cchat_read` gives; empty: the stream has ended. */
export async function readEvents(guest: TestGuest, response: number, capacity = BODY_BYTES): Promise<JsonObject[]> {
  const out = guest.heap.out(capacity);
  const length = await guest.call('cchat_read', response, ...out.args);
  expect(length).toBe(out.length);
  expect(out.isIntactBeyond(length)).toBe(true);
  const lines = out.text().split('\n');
  expect(lines.pop()).toBe('');
  return lines.map((line) => JSON.parse(line) as JsonObject);
}

/** All events of a response to its end. */
export async function readToEnd(guest: TestGuest, response: number): Promise<JsonObject[]> {
  const all: JsonObject[] = [];
  for (;;) {
    const some = await readEvents(guest, response);
    if (some.length === 0) return all;
    all.push(...some);
  }
}

/** The text that the events add up to. */
export function textOf(events: readonly JsonObject[], type = 'text'): string {
  return events.flatMap((event) => (event.type === type ? [event.text] : [])).join('');
}

export async function recvJson(guest: TestGuest, response: number): Promise<JsonObject> {
  return JSON.parse(await recv(guest, response)) as JsonObject;
}

/** The content of the first choice of a body. */
export function contentOf(body: JsonObject): JsonValue | undefined {
  const choices = body.choices as { message: { content: JsonValue } }[] | undefined;
  return choices?.[0]?.message.content;
}

/** A blocking send and what the model said. */
export async function answer(guest: TestGuest, fd: number, flags = 0): Promise<JsonValue | undefined> {
  return contentOf(await recvJson(guest, await send(guest, fd, flags)));
}

export async function fdGet(guest: TestGuest, fd: number, command: number): Promise<string> {
  const out = guest.heap.out(1024);
  expect(await guest.call('spear_fd_ctl', fd, command, ...out.args)).toBe(out.length);
  return out.text();
}

export async function newEpoll(guest: TestGuest, ...members: [fd: number, events: number][]): Promise<number> {
  const epfd = await guest.call('spear_epoll_create');
  for (const [fd, events] of members) expect(await guest.call('spear_epoll_ctl', epfd, 1, fd, events)).toBe(0);
  return epfd;
}

/** The records of one wait. */
export async function epollWait(
  guest: TestGuest,
  epfd: number,
  timeoutMs: number,
  capacity = 512,
): Promise<{ fd: number; events: number }[]> {
  const out = guest.heap.out(capacity);
  const count = await guest.call('spear_epoll_wait', epfd, ...out.args, timeoutMs);
  expect(out.length).toBe(count * 8);
  expect(out.isIntactBeyond(out.length)).toBe(true);
  const bytes = out.bytes();
  return Array.from({ length: count }, (_, index) => ({
    fd: bytes.readInt32LE(index * 8),
    events: bytes.readInt32LE(index * 8 + 4),
  }));
}

/** Waits until a descriptor has something to say, and gives its events. */
export async function untilReady(guest: TestGuest, fd: number): Promise<number> {
  const epfd = await newEpoll(guest, [fd, 1]);
  const [record] = await epollWait(guest, epfd, -1);
  await guest.call('spear_epoll_close', epfd);
  return record?.events ?? 0;
}
