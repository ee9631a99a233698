import { expect } from 'vitest';
import type { JsonObject } from '../../../src/base/json.ts';
import type { OutBuffer } from '../../support/guest-heap.ts';
import type { TestGuest } from '../../support/test-guest.ts';

/** More than any result of these tests. */
const RESULT_BYTES = 16_384;

/** An McpSession. */
export async function openServer(guest: TestGuest, serverId: string): Promise<number> {
  const fd = await guest.call('mcp_open', ...guest.text(serverId));
  expect(fd).toBeGreaterThanOrEqual(1000);
  return fd;
}

const json = (args: unknown) => (typeof args === 'string' ? args : JSON.stringify(args));

/** `mcp_call_tool` with a buffer of the given capacity. */
export async function callInto(
  guest: TestGuest,
  fd: number,
  tool: string,
  args: unknown,
  capacity: number,
): Promise<{ rc: number; out: OutBuffer }> {
  const out = guest.heap.out(capacity);
  const rc = await guest.call('mcp_call_tool', fd, ...guest.text(tool), ...guest.text(json(args)), ...out.args);
  expect(out.isIntactBeyond(Math.max(rc, 0))).toBe(true);
  return { rc, out };
}

/** A call that is answered, and its answer. */
export async function callTool(guest: TestGuest, fd: number, tool: string, args: unknown = ''): Promise<string> {
  const { rc, out } = await callInto(guest, fd, tool, args, RESULT_BYTES);
  expect(rc).toBe(out.length);
  return out.text();
}

export function submit(guest: TestGuest, fd: number, tool: string, args: unknown = ''): Promise<number> {
  return guest.call('mcp_submit', fd, ...guest.text(tool), ...guest.text(json(args)));
}

/** A submitted call's descriptor. */
export async function submitted(guest: TestGuest, fd: number, tool: string, args: unknown = ''): Promise<number> {
  const call = await submit(guest, fd, tool, args);
  expect(call).toBeGreaterThanOrEqual(1000);
  return call;
}

/** `mcp_result` without looking at it. */
export function resultCode(guest: TestGuest, call: number): Promise<number> {
  return guest.call('mcp_result', call, ...guest.heap.out(RESULT_BYTES).args);
}

export async function result(guest: TestGuest, call: number): Promise<string> {
  const out = guest.heap.out(RESULT_BYTES);
  expect(await guest.call('mcp_result', call, ...out.args)).toBe(out.length);
  return out.text();
}

export async function listTools(guest: TestGuest, fd: number): Promise<string> {
  const out = guest.heap.out(RESULT_BYTES);
  expect(await guest.call('mcp_list_tools', fd, ...out.args)).toBe(out.length);
  return out.text();
}

/** The code of the error in a result. */
export function errorCode(text: string): unknown {
  return ((JSON.parse(text) as JsonObject).error as JsonObject | undefined)?.code;
}
