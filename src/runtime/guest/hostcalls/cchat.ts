/*
 * Hostcalls of chat. Each handler checks the descriptor, then limits; only `cchat_send` and `cchat_read` wait. Parameters,
 * results and errnos of every call are in the ABI table (`runtime/abi/calls.ts`).
 *
 * A blocking send runs callbacks of guest tools on top of its wait. Callbacks of a background send (O_NONBLOCK or STREAM) run
 * when the guest waits in `cchat_read` or `spear_epoll_wait`.
 */
import { isJsonObject, type JsonValue } from '../../../base/json.ts';
import { NAME_BYTES } from '../../abi/calls.ts';
import { checkParam } from '../../abi/chat-params.ts';
import { type Failure, fail } from '../../abi/errno.ts';
import { type HostReply, SEND_WINDOW_BYTES } from '../../port/port.ts';
import { ChatResponse, ChatSession } from '../descriptors/chat-entries.ts';
import { closeFd, noRoomForCall, openFd, paramTooLarge, parseGuestJson, settledMetrics } from './fd.ts';
import { type GuestState, MAX_DEPTH, runTool, runWaitingTool } from './guest-state.ts';
import type { Family } from './table.ts';

const SET_PARAM = 1;

const STREAM = 8;
/** metrics, AUTO_TOOL_CALL, HAND_BACK, STREAM. */
const KNOWN_FLAGS = 0b1111;

const SHORT_TEXT = 256;

const encoder = new TextEncoder();

/** Counted per write in addition to its text, so that empty writes are bounded too. */
const WRITE_OVERHEAD_BYTES = 32;

function session(guest: GuestState, fd: number): ChatSession | undefined {
  const entry = guest.fds.get(fd);
  return entry instanceof ChatSession ? entry : undefined;
}

/** perf: a short text counts by characters; computing its byte length would cost more than the write. */
const nameBytes = (text: string) => (text.length <= SHORT_TEXT ? text.length : Buffer.byteLength(text));

/** Counts a write against the session and chat limits; false, with a notice, if one is reached. */
function hasRoom(guest: GuestState, chat: ChatSession, textBytes: number): boolean {
  const bytes = WRITE_OVERHEAD_BYTES + textBytes;
  const { max_session_bytes: one, max_chat_bytes: all } = guest.limits;
  if (guest.chatBytes + bytes > all) guest.link.drain(); // the host may have released a closed session
  if (guest.chatBytes + bytes > all) {
    guest.notice(`the chat sessions hold limits.max_chat_bytes = ${all} together: ENOMEM`);
    return false;
  }
  if (!chat.reserve(bytes, one)) {
    guest.notice(`a chat session holds limits.max_session_bytes = ${one}: ENOMEM`);
    return false;
  }
  guest.chatBytes += bytes;
  return true;
}

/** A closed session counts until the host has released it, which waits for its sends to unwind. */
function closeSession(guest: GuestState, chat: ChatSession): void {
  const free = () => {
    guest.chatBytes -= chat.bytes;
  };
  if (chat.unsettled === 0) {
    // The host releases the session before it receives any later message that could use its room.
    if (chat.sent) guest.link.sendLater(['close_session', chat.id]);
    free();
    return;
  }
  guest.closingSessions += 1;
  const call = guest.link.call(['close_session', chat.id], () => {
    guest.link.unlisten(call);
    guest.closingSessions -= 1;
    free();
  });
}

function tooManySessions(guest: GuestState): boolean {
  const full = () => guest.fds.count('ChatSession') + guest.closingSessions >= guest.limits.max_sessions;
  if (full()) guest.link.drain();
  return full();
}

function toolName(definition: JsonValue | undefined): string | undefined {
  if (!isJsonObject(definition)) return undefined;
  const fn = isJsonObject(definition.function) ? definition.function : definition;
  return typeof fn.name === 'string' && fn.name !== '' ? fn.name : undefined;
}

function setParam(guest: GuestState, chat: ChatSession, json: string): number | Failure {
  const pair = parseGuestJson(json);
  if (!isJsonObject(pair)) return fail.EIO;
  const { key, value } = pair;
  if (typeof key !== 'string' || key === '' || value === undefined) return fail.EIO;
  if (key === 'tool_arena_ptr' || key === 'tool_arena_len') {
    if (typeof value !== 'number' || value !== value >>> 0) return fail.EINVAL;
    if (key === 'tool_arena_ptr') chat.arena.ptr = value;
    else chat.arena.length = value;
    return 0;
  }
  const checked = guest.checkMcpParam(key, value) ?? checkParam(key, value);
  if (typeof checked === 'string') return fail[checked];
  if (!hasRoom(guest, chat, nameBytes(json))) return fail.ENOMEM;
  chat.writeParam(checked);
  return 0;
}

function receive(guest: GuestState, response: ChatResponse, reply: HostReply): void {
  if (reply[0] === 'events') response.addEvents(encoder.encode(reply[1]));
  else if (reply[0] === 'tool') {
    const [, callback, fnOffset, args, maxOutputBytes] = reply;
    const request = { callback, fnOffset, args, maxOutputBytes };
    if (response.background) guest.waitingTools.push({ response, request });
    else response.toolRequests.push(request);
  } else if (reply[0] === 'response') {
    const [, body, metrics, pending] = reply;
    for (const id of pending) response.session.handedBack.add(id);
    // Encoded once: the guest may read the body many times.
    response.complete(encoder.encode(body), metrics, guest);
    response.session.settled(response);
    guest.link.unlisten(response.call);
  }
}

/** The wait of a blocking send, with callbacks on top of it. */
async function settle(guest: GuestState, response: ChatResponse, fd: number): Promise<number> {
  while (response.pending) {
    const request = response.toolRequests.shift();
    if (request) await runTool(guest, response, request);
    else await guest.wait.changed();
  }
  return fd;
}

export const cchatCalls: Family<
  | 'cchat_create'
  | 'cchat_write_msg'
  | 'cchat_write_fn'
  | 'cchat_write_tool_result'
  | 'cchat_ctl'
  | 'cchat_send'
  | 'cchat_recv'
  | 'cchat_read'
  | 'cchat_close'
> = {
  cchat_create(guest) {
    if (tooManySessions(guest)) {
      guest.notice(`the guest has limits.max_sessions = ${guest.limits.max_sessions} chat sessions open: EMFILE`);
      return fail.EMFILE;
    }
    const chat: ChatSession = new ChatSession(() => closeSession(guest, chat));
    const fd = openFd(guest, chat);
    if (typeof fd === 'number') chat.id = fd;
    return fd;
  },

  cchat_write_msg(guest, fd, role, content) {
    const chat = session(guest, fd);
    if (!chat) return fail.EBADF;
    if (role === undefined) return roleTooLong(guest);
    if (content === undefined) return tooLarge(guest);
    if (!hasRoom(guest, chat, nameBytes(role) + Buffer.byteLength(content))) return fail.ENOMEM;
    chat.writeMessage(role, content);
    return 0;
  },

  cchat_write_fn(guest, fd, fnOffset, json) {
    const chat = session(guest, fd);
    if (!chat) return fail.EBADF;
    if (json === undefined) return tooLarge(guest);
    if (toolName(parseGuestJson(json)) === undefined) return fail.EINVAL;
    if (!hasRoom(guest, chat, Buffer.byteLength(json))) return fail.ENOMEM;
    chat.writeTool(fnOffset, json);
    return 0;
  },

  cchat_write_tool_result(guest, fd, id, content) {
    const chat = session(guest, fd);
    if (!chat) return fail.EBADF;
    if (id === undefined || !chat.handedBack.has(id)) return fail.ENOENT;
    if (content === undefined) return tooLarge(guest);
    if (!hasRoom(guest, chat, Buffer.byteLength(content))) return fail.ENOMEM;
    chat.writeToolResult(id, content);
    return 0;
  },

  cchat_ctl(guest, fd, cmd, arg) {
    if (cmd === SET_PARAM) {
      const chat = session(guest, fd);
      if (!chat) return fail.EBADF;
      return typeof arg === 'string' ? setParam(guest, chat, arg) : paramTooLarge(guest);
    }
    const response = guest.fds.get(fd);
    return response instanceof ChatResponse ? settledMetrics(guest, response) : fail.EBADF;
  },

  cchat_send(guest, fd, flags) {
    const chat = session(guest, fd);
    if (!chat) return fail.EBADF;
    if (flags & ~KNOWN_FLAGS) return fail.EINVAL;
    if (chat.busy) guest.link.drain();
    if (chat.busy || guest.depth >= MAX_DEPTH) return fail.EBUSY;
    if (chat.handedBack.size > 0) return fail.EINVAL;
    const refused = noRoomForCall(guest);
    if (refused) return refused;
    const response = new ChatResponse(chat, (flags & STREAM) !== 0, guest, ({ call }) => {
      guest.link.send(call, ['cancel']);
      guest.link.unlisten(call);
      guest.wait.notify();
    });
    const responseFd = openFd(guest, response);
    if (typeof responseFd !== 'number') return responseFd;
    const delta = chat.begin(response);
    response.call = guest.link.call(
      ['send', chat.id, flags, delta],
      (reply) => receive(guest, response, reply),
      () => chat.hostSettled(),
    );
    return response.background ? responseFd : settle(guest, response, responseFd);
  },

  cchat_recv(guest, fd) {
    const response = guest.fds.get(fd);
    if (!(response instanceof ChatResponse)) return fail.EBADF;
    const body = response.body();
    if (body !== fail.EAGAIN) return body;
    guest.link.drain();
    return response.body();
  },

  cchat_read: readEvents,

  cchat_close: closeFd,
};

function roleTooLong(guest: GuestState): Failure {
  guest.notice(`the role of a message is longer than ${NAME_BYTES} bytes: EMSGSIZE`);
  return fail.EMSGSIZE;
}

function tooLarge(guest: GuestState): Failure {
  guest.notice(`a message is larger than limits.max_message_bytes = ${guest.limits.max_message_bytes}: EMSGSIZE`);
  return fail.EMSGSIZE;
}

/** Read events are acknowledged in batches of half a window: each message may have to wake the host. */
const READ_ACK_BYTES = SEND_WINDOW_BYTES / 2;

/** `cchat_read`. Returns available events without polling the port first. */
export function readEvents(
  guest: GuestState,
  fd: number,
  capacity: number,
): Uint8Array | Failure | Promise<Uint8Array | Failure> {
  const response = guest.fds.get(fd);
  if (!(response instanceof ChatResponse)) return fail.EBADF;
  if (response.events === null) return fail.EINVAL;
  const there = take(guest, response, capacity);
  if (there !== fail.EAGAIN) return there;
  guest.link.drain();
  const arrived = take(guest, response, capacity);
  if (arrived !== fail.EAGAIN) return arrived;
  if (response.callbacks > 0) return fail.EAGAIN; // no event arrives before the calling callback has returned
  return response.nonblocking && guest.waitingTools.length === 0 ? fail.EAGAIN : wait(guest, fd, response, capacity);
}

/** Waits for an event; callbacks run on top of this wait, one at a time. */
async function wait(
  guest: GuestState,
  fd: number,
  response: ChatResponse,
  capacity: number,
): Promise<Uint8Array | Failure> {
  for (;;) {
    while (await runWaitingTool(guest)) guest.link.drain();
    if (guest.fds.get(fd) !== response) return fail.EBADF; // closed by a callback
    const arrived = take(guest, response, capacity);
    if (arrived !== fail.EAGAIN || response.nonblocking) return arrived;
    await guest.wait.changed();
  }
}

/** EAGAIN: no event yet. Empty: no more events. */
function take(guest: GuestState, response: ChatResponse, capacity: number): Uint8Array | Failure {
  const lines = response.takeEvents(capacity);
  if (!response.pending) {
    const ended = response.body();
    return ended === fail.ECANCELED ? ended : lines;
  }
  if (lines.byteLength === 0) return fail.EAGAIN;
  if (response.unacknowledgedBytes >= READ_ACK_BYTES) {
    guest.link.send(response.call, ['read', response.unacknowledgedBytes]);
    response.unacknowledgedBytes = 0;
  }
  return lines;
}
