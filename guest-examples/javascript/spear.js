// A small SDK over spear:host for agents in JavaScript. Copy this file next to yours.
import * as cchat from 'spear:host/cchat@1.1.0';
import { log } from 'spear:host/log@1.1.0';
import * as mcp from 'spear:host/mcp@1.1.0';
import { spearEpollClose, spearEpollCreate, spearEpollCtl, spearEpollWait, spearFdCancel } from 'spear:host/poll@1.1.0';
import * as userStream from 'spear:host/user-stream@1.1.0';

const SET_PARAM = 1;
const HAND_BACK = 4;
const STREAM = 8;
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];

/** Log lines for the operator of the guest: `say.info(…)` goes to stdout, `say.error(…)` to stderr. */
export const say = Object.fromEntries(LEVELS.map((name, level) => [name, (text) => log(level, String(text))]));

const AsyncFunction = (async () => {}).constructor;
const NO_ASYNC = 'no promise is ever settled here; calls of the host wait by themselves, so leave out async and await';

/** The engine runs no jobs while a guest runs: code after an `await` would silently never run. */
function refuseAsync(body, what) {
  if (body instanceof AsyncFunction) throw new TypeError(`${what} is an async function: ${NO_ASYNC}`);
}

function refusePromise(value, what) {
  if (typeof value?.then === 'function') throw new TypeError(`${what} returned a promise: ${NO_ASYNC}`);
}

/**
 * The entry function of a guest: `export const run = task(() => …)`. An exception is logged and ends the guest with exit code 1.
 * An async function is rejected when the component is built.
 */
export function task(body) {
  refuseAsync(body, 'the task');
  return () => {
    try {
      refusePromise(body(), 'the task');
    } catch (error) {
      say.error(`${error}\n${error?.stack ?? ''}`.trimEnd());
      throw undefined; // the error case of `run: func() -> result`; anything else would be a trap
    }
  };
}

/** The length of a text in UTF-8: the engine has no TextEncoder. */
export const byteLength = (text) => encodeURIComponent(text).replace(/%../g, '.').length;

/** A conversation. Tools are functions; the model's tool calls run inside `send`. */
export class Chat {
  #fd = cchat.cchatCreate();
  #tools = new Map();

  say(role, content) {
    cchat.cchatWriteMsg(this.#fd, role, content);
    return this;
  }

  param(key, value) {
    cchat.cchatCtl(this.#fd, SET_PARAM, JSON.stringify({ key, value }));
    return this;
  }

  /** `definition`: { name, description, parameters } as OpenAI has it; `run` gets the arguments and returns the output. */
  tool(definition, run) {
    refuseAsync(run, `the tool ${definition.name}`);
    cchat.cchatWriteFn(this.#fd, JSON.stringify(definition));
    this.#tools.set(definition.name, run);
    return this;
  }

  /** The final text of the model, including a refusal. Throws on failure. */
  send() {
    for (;;) {
      const body = this.#receive();
      if (body.error) throw new Error(`${body.error.code}: ${body.error.message}`);
      const pending = body._spear?.pending_tool_calls ?? [];
      if (pending.length === 0) return answerOf(body.choices?.[0]?.message ?? {});
      for (const call of pending) cchat.cchatWriteToolResult(this.#fd, call.id, this.#answer(call));
    }
  }

  /**
   * Streams the response: `for (const event of chat.stream())`, objects such as { type: 'text', text }. Tools run
   * meanwhile; the last event is { type: 'end' }, after an { type: 'error' } if the send failed.
   */
  *stream() {
    for (;;) {
      const response = cchat.cchatSend(this.#fd, HAND_BACK | STREAM);
      let pending = [];
      try {
        for (let lines = cchat.cchatRead(response); lines !== ''; lines = cchat.cchatRead(response)) {
          const events = lines
            .trimEnd()
            .split('\n')
            .map((line) => JSON.parse(line));
          const last = events.at(-1);
          if (last.type === 'end') pending = JSON.parse(cchat.cchatRecv(response))._spear?.pending_tool_calls ?? [];
          yield* pending.length > 0 ? events.slice(0, -1) : events;
        }
      } finally {
        cchat.cchatClose(response);
      }
      if (pending.length === 0) return;
      for (const call of pending) cchat.cchatWriteToolResult(this.#fd, call.id, this.#answer(call));
    }
  }

  close() {
    cchat.cchatClose(this.#fd);
  }

  #receive() {
    const response = cchat.cchatSend(this.#fd, HAND_BACK);
    try {
      return JSON.parse(cchat.cchatRecv(response));
    } finally {
      cchat.cchatClose(response);
    }
  }

  #answer({ name, arguments: json }) {
    let answer;
    try {
      answer = this.#tools.get(name)(JSON.parse(json || '{}'));
    } catch (error) {
      return JSON.stringify({ error: { code: 'tool_exec_failed', message: String(error?.message ?? error) } });
    }
    refusePromise(answer, `the tool ${name}`); // a mistake of the guest: the model cannot do anything about it
    return typeof answer === 'string' ? answer : (JSON.stringify(answer) ?? 'null');
  }
}

/** The text of a message: its content, which may consist of parts, or else its refusal. */
function answerOf({ content, refusal }) {
  const parts = Array.isArray(content) ? content : [{ text: content }];
  const texts = parts.map((part) => part.text ?? part.refusal).filter((text) => typeof text === 'string');
  const text = texts.join('') || refusal;
  if (typeof text === 'string') return text;
  if (texts.length === 0) throw new Error('no text in the response');
  return '';
}

/** An MCP server that the guest calls itself. */
export class Mcp {
  #fd;

  constructor(serverId) {
    this.#fd = mcp.mcpOpen(serverId);
  }

  tools() {
    return JSON.parse(mcp.mcpListTools(this.#fd)).tools;
  }

  /** The result of a tool; a call that was denied or failed has `error` in it. */
  call(tool, args = {}) {
    return JSON.parse(mcp.mcpCallTool(this.#fd, tool, JSON.stringify(args)));
  }

  /** The resources that this guest may read: `{ resources, templates }`. */
  resources() {
    return JSON.parse(mcp.mcpListResources(this.#fd));
  }

  /** `{ contents }` of a resource; a read that was denied or failed has `error` in it. */
  read(uri) {
    return JSON.parse(mcp.mcpReadResource(this.#fd, uri));
  }

  prompts() {
    return JSON.parse(mcp.mcpListPrompts(this.#fd)).prompts;
  }

  /** `{ messages }` of a prompt, whose arguments are strings; a denied or failed request has `error` in it. */
  prompt(name, args = {}) {
    return JSON.parse(mcp.mcpGetPrompt(this.#fd, name, JSON.stringify(args)));
  }

  /** Starts a call without waiting. */
  submit(tool, args = {}) {
    const fd = mcp.mcpSubmit(this.#fd, tool, JSON.stringify(args));
    return {
      /** Waits for the result. */
      result: () => JSON.parse(mcp.mcpResult(fd)),
      cancel: () => spearFdCancel(fd),
      close: () => mcp.mcpClose(fd),
    };
  }

  close() {
    mcp.mcpClose(this.#fd);
  }
}

const EPOLL_ADD = 1;
const IN = 1;
const OUT = 4;
const FRAME_HEADER = 32;
const BOTH = 3;

/** The name of the errno that a hostcall threw, such as `eagain`; rethrows any other error. */
function errnoOf(error) {
  const name = error?.payload ?? error;
  if (typeof name === 'string') return name;
  throw error;
}

/** Waits until a descriptor is ready. */
function waitFor(fd, events) {
  const epoll = spearEpollCreate();
  try {
    spearEpollCtl(epoll, EPOLL_ADD, fd, events);
    spearEpollWait(epoll, -1);
  } finally {
    spearEpollClose(epoll);
  }
}

/**
 * A stream of frames between this guest and a client of its run: `{ type, flags, sequence, meta, data }`, the first two
 * numbers, `sequence` a bigint, the rest Uint8Arrays. Their meaning is defined by you and the client.
 */
export class UserStream {
  #fd;
  #id;

  constructor(id, direction = BOTH) {
    this.#id = id;
    this.#fd = userStream.userStreamOpen(id, direction);
  }

  /** Waits for the next frame; null when the client has ended its side. */
  receive() {
    for (;;) {
      try {
        return parseFrame(Uint8Array.from(userStream.userStreamRead(this.#fd)));
      } catch (error) {
        const errno = errnoOf(error);
        if (errno === 'epipe') return null;
        if (errno !== 'eagain') throw new Error(`user-stream-read: ${errno}`);
        waitFor(this.#fd, IN);
      }
    }
  }

  /** Sends a frame, waiting for room; false: the client has disconnected. */
  send(frame) {
    const bytes = frameBytes(this.#id, frame);
    for (;;) {
      try {
        userStream.userStreamWrite(this.#fd, bytes);
        return true;
      } catch (error) {
        const errno = errnoOf(error);
        if (errno === 'epipe') return false;
        if (errno !== 'eagain') throw new Error(`user-stream-write: ${errno}`);
        waitFor(this.#fd, OUT);
      }
    }
  }

  /** Every frame until the client ends its side. */
  *[Symbol.iterator]() {
    for (let frame = this.receive(); frame !== null; frame = this.receive()) yield frame;
  }

  close() {
    userStream.userStreamClose(this.#fd);
  }
}

function parseFrame(bytes) {
  const view = new DataView(bytes.buffer);
  const header = view.getUint16(6, true);
  const meta = view.getUint32(24, true);
  return {
    type: view.getUint16(8, true),
    flags: view.getUint16(10, true),
    sequence: view.getBigUint64(16, true),
    meta: bytes.slice(header, header + meta),
    data: bytes.slice(header + meta),
  };
}

function frameBytes(id, { type = 0, flags = 0, sequence = 0n, meta = new Uint8Array(), data = new Uint8Array() }) {
  const bytes = new Uint8Array(FRAME_HEADER + meta.length + data.length);
  const view = new DataView(bytes.buffer);
  bytes.set([0x53, 0x50, 0x53, 0x54]); // "SPST"
  view.setUint16(4, 1, true);
  view.setUint16(6, FRAME_HEADER, true);
  view.setUint16(8, type, true);
  view.setUint16(10, flags, true);
  view.setUint32(12, id, true);
  view.setBigUint64(16, sequence, true);
  view.setUint32(24, meta.length, true);
  view.setUint32(28, data.length, true);
  bytes.set(meta, FRAME_HEADER);
  bytes.set(data, FRAME_HEADER + meta.length);
  return bytes;
}
