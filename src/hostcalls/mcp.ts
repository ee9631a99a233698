import { type Failure, fail } from '../abi/errno.ts';
import { McpCall, McpSession } from '../fd/mcp-entries.ts';
import type { GuestRequest } from '../protocol/port.ts';
import { closeFd, openFd, tooManyFds } from './fd.ts';
import type { GuestState } from './guest-state.ts';
import type { Family } from './table.ts';

const bytesOf = (body: ArrayBuffer | null) => (body === null ? new Uint8Array() : new Uint8Array(body));

/** One question to the host whose answer is an errno or bytes. The guest is suspended meanwhile. */
function ask(guest: GuestState, request: GuestRequest): Promise<Uint8Array | Failure> {
  return new Promise((resolve) => {
    const call = guest.link.call(request, (reply) => {
      if (reply[0] !== 'done') return;
      guest.link.forget(call);
      resolve(reply[1] === null ? bytesOf(reply[2]) : fail[reply[1]]);
    });
  });
}

function session(guest: GuestState, fd: number): McpSession | undefined {
  const entry = guest.fds.get(fd);
  return entry instanceof McpSession ? entry : undefined;
}

/** Starts a call. Its entry may become a descriptor, or serve one blocking hostcall only. */
function start(guest: GuestState, fd: number, server: string, tool: string, args: string): McpCall {
  const entry: McpCall = new McpCall(() => {
    guest.link.tell(entry.call, ['cancel']);
    settled();
  });
  const settled = () => {
    guest.link.forget(entry.call);
    guest.pendingMcp.delete(entry);
    guest.wait.notify();
  };
  guest.pendingMcp.add(entry);
  entry.call = guest.link.call(['mcp_call', fd, server, tool, args], (reply) => {
    if (reply[0] !== 'done') return;
    entry.complete(bytesOf(reply[2]), reply[3]);
    settled();
  });
  return entry;
}

async function settle(guest: GuestState, entry: McpCall): Promise<Uint8Array | Failure> {
  while (entry.pending) await guest.wait.changed(-1);
  return entry.body();
}

/** The one execution of a blocking call: what does not fit the buffer is kept for the guest to fetch. */
async function callOnce(
  guest: GuestState,
  fd: number,
  mcp: McpSession,
  tool: string,
  args: string,
  capacity: number,
): Promise<Uint8Array | Failure> {
  const body = await settle(guest, start(guest, fd, mcp.serverId, tool, args));
  if (body instanceof Uint8Array && body.byteLength > capacity) mcp.held = { tool, args, body };
  return body;
}

export const mcpCalls: Family<
  | 'mcp_open'
  | 'mcp_list_tools'
  | 'mcp_call_tool'
  | 'mcp_submit'
  | 'mcp_result'
  | 'mcp_close'
  | 'mcp_registry_list'
  | 'mcp_registry_get'
> = {
  async mcp_open(guest, serverId) {
    const refused = await ask(guest, ['mcp_open', serverId ?? '']);
    return refused instanceof Uint8Array ? openFd(guest, new McpSession(serverId ?? '')) : refused;
  },

  mcp_list_tools(guest, fd) {
    const mcp = session(guest, fd);
    return mcp ? ask(guest, ['mcp_list', mcp.serverId]) : fail.EBADF;
  },

  mcp_call_tool(guest, fd, tool, args, capacity) {
    const mcp = session(guest, fd);
    if (!mcp) return fail.EBADF;
    if (tool === undefined || args === undefined) return fail.EMSGSIZE;
    const { held } = mcp;
    if (held && held.tool === tool && held.args === args) {
      if (held.body.byteLength <= capacity) mcp.held = undefined;
      return held.body;
    }
    mcp.held = undefined;
    return callOnce(guest, fd, mcp, tool, args, capacity);
  },

  mcp_submit(guest, fd, tool, args) {
    const mcp = session(guest, fd);
    if (!mcp) return fail.EBADF;
    if (tool === undefined || args === undefined) return fail.EMSGSIZE;
    if (guest.pendingMcp.size >= guest.limits.max_pending_calls) guest.link.drain();
    if (guest.pendingMcp.size >= guest.limits.max_pending_calls) return fail.EAGAIN;
    if (guest.fds.full) return tooManyFds(guest);
    const entry = start(guest, fd, mcp.serverId, tool, args);
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
