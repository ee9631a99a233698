// A few classes over spear:host, so that an agent in JavaScript reads like one. Copy this file beside yours.
import * as cchat from 'spear:host/cchat@1.0.0';
import { log } from 'spear:host/log@1.0.0';
import * as mcp from 'spear:host/mcp@1.0.0';
import { spearFdCancel } from 'spear:host/poll@1.0.0';

const SET_PARAM = 1;
const HAND_BACK = 4;
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];

/** Lines for whoever runs the guest: `say.info(…)` goes to stdout, `say.error(…)` to stderr. */
export const say = Object.fromEntries(LEVELS.map((name, level) => [name, (text) => log(level, String(text))]));

const AsyncFunction = (async () => {}).constructor;
const NO_ASYNC = 'no promise is ever settled here; calls of the host wait by themselves, so leave out async and await';

/** The engine runs no jobs while a guest runs: what stands after an `await` would never happen, and nobody would see it. */
function refuseAsync(body, what) {
  if (body instanceof AsyncFunction) throw new TypeError(`${what} is an async function: ${NO_ASYNC}`);
}

function refusePromise(value, what) {
  if (typeof value?.then === 'function') throw new TypeError(`${what} returned a promise: ${NO_ASYNC}`);
}

/**
 * The entry of a guest: `export const run = task(() => …)`. What it throws is logged and ends the guest with exit code 1.
 * An async function is refused, when the component is built.
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

/** A conversation. Tools are functions; the model's calls of them are answered inside `send`. */
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

  /** `definition`: { name, description, parameters } as OpenAI has it; `run` gets the arguments and returns the answer. */
  tool(definition, run) {
    refuseAsync(run, `the tool ${definition.name}`);
    cchat.cchatWriteFn(this.#fd, JSON.stringify(definition));
    this.#tools.set(definition.name, run);
    return this;
  }

  /** What the model says in the end, a refusal included. Throws what went wrong. */
  send() {
    for (;;) {
      const body = this.#receive();
      if (body.error) throw new Error(`${body.error.code}: ${body.error.message}`);
      const pending = body._spear?.pending_tool_calls ?? [];
      if (pending.length === 0) return answerOf(body.choices?.[0]?.message ?? {});
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

/** The text of a message: its content, which may come in parts, or else what it was refused with. */
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

  /** The result of a tool; a call that was refused or failed has `error` in it. */
  call(tool, args = {}) {
    return JSON.parse(mcp.mcpCallTool(this.#fd, tool, JSON.stringify(args)));
  }

  /** Starts a call and goes on. */
  submit(tool, args = {}) {
    const fd = mcp.mcpSubmit(this.#fd, tool, JSON.stringify(args));
    return {
      /** Waits for it. */
      result: () => JSON.parse(mcp.mcpResult(fd)),
      cancel: () => spearFdCancel(fd),
      close: () => mcp.mcpClose(fd),
    };
  }

  close() {
    mcp.mcpClose(this.#fd);
  }
}
