import { type Failure, fail } from '../../abi/errno.ts';
import type { GuestRequest } from '../../port/port.ts';
import { type HeldResult, McpCall, McpSession } from '../descriptors/mcp-entries.ts';
import { type Answer, type AnswerCount, bytesOf } from '../descriptors/table.ts';
import { closeFd, noRoomForCall, openFd, tooManyFds } from './fd.ts';
import type { GuestState } from './guest-state.ts';
import type { Family } from './table.ts';

/** A request that the host answers with an errno or text; suspends the guest. */
function ask(guest: GuestState, request: GuestRequest): Promise<string | Failure> {
  return new Promise((resolve) => {
    const call = guest.link.call(request, (reply) => {
      if (reply[0] !== 'done') return;
      guest.link.unlisten(call);
      resolve(reply[1] === null ? (reply[2] ?? '') : fail[reply[1]]);
    });
  });
}

function session(guest: GuestState, fd: number): McpSession | undefined {
  const entry = guest.fds.get(fd);
  return entry instanceof McpSession ? entry : undefined;
}

function openServer(guest: GuestState, serverId: string): number | Failure {
  const mcp: McpSession = new McpSession(serverId, () => hold(guest, mcp, undefined));
  return openFd(guest, mcp);
}

/** Requests to a server, as named on the port. */
type ServerOp = 'mcp_call' | 'mcp_read_resource' | 'mcp_get_prompt';

/** Starts a call. `count`: for an entry that becomes a descriptor; undefined for one blocking hostcall. */
function start(
  guest: GuestState,
  fd: number,
  op: ServerOp,
  server: string,
  name: string,
  args: string,
  count: AnswerCount | undefined,
): McpCall {
  const entry: McpCall = new McpCall(() => {
    guest.link.send(entry.call, ['cancel']);
    settled();
  });
  const settled = () => {
    guest.link.unlisten(entry.call);
    guest.wait.notify();
  };
  const bytes = Buffer.byteLength(args);
  guest.mcpBytes += bytes;
  entry.call = guest.link.call(
    [op, fd, server, name, args],
    (reply) => {
      if (reply[0] !== 'done') return;
      entry.complete(reply[2] ?? '', reply[3], count);
      settled();
    },
    () => {
      guest.mcpBytes -= bytes;
    },
  );
  return entry;
}

/** Whether the arguments fit limits.max_pending_bytes; a single call always does. */
function hasRoom(guest: GuestState, args: string): boolean {
  const { max_pending_bytes: limit } = guest.limits;
  const full = () => guest.mcpBytes > 0 && guest.mcpBytes + Buffer.byteLength(args) > limit;
  if (full()) guest.link.drain();
  if (!full()) return true;
  guest.notice(`the arguments of pending MCP calls reach limits.max_pending_bytes = ${limit}: EAGAIN`);
  return false;
}

/** Retains a result for the identical call to fetch, or drops the retained one. */
function hold(guest: GuestState, mcp: McpSession, held: HeldResult | undefined): void {
  guest.answerBytes += (held?.bytes ?? 0) - (mcp.held?.bytes ?? 0);
  mcp.held = held;
}

async function settle(guest: GuestState, entry: McpCall): Promise<Answer | Failure> {
  while (entry.pending) await guest.wait.changed();
  return entry.body();
}

/** Executes a blocking call once; a result that does not fit is retained for the guest to fetch. */
async function callOnce(
  guest: GuestState,
  fd: number,
  mcp: McpSession,
  op: ServerOp,
  name: string,
  args: string,
  capacity: number,
): Promise<Answer | Failure> {
  const body = await settle(guest, start(guest, fd, op, mcp.serverId, name, args, undefined));
  const bytes = typeof body === 'string' ? bytesOf(body) : 0;
  if (typeof body === 'string' && bytes > capacity) hold(guest, mcp, { op, name, args, body, bytes });
  return body;
}

/** Returns the retained result of an identical call, or makes the call. */
function callAndWait(
  guest: GuestState,
  op: ServerOp,
  fd: number,
  name: string | undefined,
  args: string | undefined,
  capacity: number,
): Answer | Failure | Promise<Answer | Failure> {
  const mcp = session(guest, fd);
  if (!mcp) return fail.EBADF;
  if (name === undefined || args === undefined) return fail.EMSGSIZE;
  const { held } = mcp;
  if (held && held.op === op && held.name === name && held.args === args) {
    if (held.bytes <= capacity) hold(guest, mcp, undefined);
    return held.body;
  }
  hold(guest, mcp, undefined);
  if (!hasRoom(guest, args)) return fail.EAGAIN;
  const refused = noRoomForCall(guest);
  if (refused) return refused;
  return callOnce(guest, fd, mcp, op, name, args, capacity);
}

/** Lists what a server offers and policy allows. */
function list(
  guest: GuestState,
  op: 'mcp_list' | 'mcp_list_resources' | 'mcp_list_prompts',
  fd: number,
): Failure | Promise<string | Failure> {
  const mcp = session(guest, fd);
  return mcp ? ask(guest, [op, mcp.serverId]) : fail.EBADF;
}

export const mcpCalls: Family<
  | 'mcp_open'
  | 'mcp_list_tools'
  | 'mcp_list_resources'
  | 'mcp_list_prompts'
  | 'mcp_call_tool'
  | 'mcp_read_resource'
  | 'mcp_get_prompt'
  | 'mcp_submit'
  | 'mcp_result'
  | 'mcp_close'
  | 'mcp_registry_list'
  | 'mcp_registry_get'
> = {
  async mcp_open(guest, serverId) {
    const refused = await ask(guest, ['mcp_open', serverId ?? '']);
    return typeof refused === 'string' ? openServer(guest, serverId ?? '') : refused;
  },

  mcp_list_tools: (guest, fd) => list(guest, 'mcp_list', fd),

  mcp_list_resources: (guest, fd) => list(guest, 'mcp_list_resources', fd),

  mcp_list_prompts: (guest, fd) => list(guest, 'mcp_list_prompts', fd),

  mcp_call_tool: (guest, fd, tool, args, capacity) => callAndWait(guest, 'mcp_call', fd, tool, args, capacity),

  mcp_read_resource: (guest, fd, uri, capacity) => callAndWait(guest, 'mcp_read_resource', fd, uri, '', capacity),

  mcp_get_prompt: (guest, fd, name, args, capacity) => callAndWait(guest, 'mcp_get_prompt', fd, name, args, capacity),

  mcp_submit(guest, fd, tool, args) {
    const mcp = session(guest, fd);
    if (!mcp) return fail.EBADF;
    if (tool === undefined || args === undefined) return fail.EMSGSIZE;
    if (!hasRoom(guest, args)) return fail.EAGAIN;
    const refused = noRoomForCall(guest);
    if (refused) return refused;
    if (guest.fds.full) return tooManyFds(guest);
    const entry = start(guest, fd, 'mcp_call', mcp.serverId, tool, args, guest);
    entry.nonblocking = mcp.nonblocking;
    return openFd(guest, entry);
  },

  mcp_result(guest, fd) {
    const entry = guest.fds.get(fd);
    if (!(entry instanceof McpCall)) return fail.EBADF;
    if (entry.pending) guest.link.drain();
    return entry.pending && !entry.nonblocking ? settle(guest, entry) : entry.body();
  },

  mcp_close: closeFd,

  mcp_registry_list: (guest) => ask(guest, ['mcp_registry', null]),

  mcp_registry_get: (guest, serverId) => ask(guest, ['mcp_registry', serverId ?? '']),
};
