import type { CallName } from '../../src/runtime/abi/calls.ts';
import type { GuestHeap, OutBuffer } from './guest-heap.ts';
import type { ToolCall, ToolHandler } from './test-guest.ts';

type Enter = (name: CallName, ...args: number[]) => Promise<number | bigint | undefined>;

const AUTO_TOOL_CALL = 2;
const HAND_BACK = 4;
const BODY_BYTES = 65_536;

interface PendingCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/**
 * What every SDK hides behind one call: the tools of a component are functions of its own, so a send that asks for them
 * is a send that hands back, and goes on until nothing is pending.
 */
export class HandBackLoop {
  readonly #enter: Enter;
  readonly #heap: GuestHeap;
  readonly #handlerAt: (slot: number) => ToolHandler | undefined;
  #body: OutBuffer | undefined;
  readonly #tools = new Map<number, Map<string, ToolHandler>>();

  constructor(enter: Enter, heap: GuestHeap, handlerAt: (slot: number) => ToolHandler | undefined) {
    this.#enter = enter;
    this.#heap = heap;
    this.#handlerAt = handlerAt;
  }

  enter: Enter = async (name, ...args) => {
    const [fd = 0, second = 0, ptr = 0, length = 0] = args;
    if (name === 'cchat_write_fn') {
      const result = await this.#enter(name, ...args);
      const handler = this.#handlerAt(second);
      if (result === 0 && handler) this.#remember(fd, this.#heap.bytes.toString('utf8', ptr, ptr + length), handler);
      return result;
    }
    const loops = name === 'cchat_send' && second & AUTO_TOOL_CALL && !(second & HAND_BACK) && this.#tools.has(fd);
    return loops ? this.#send(fd, (second & ~AUTO_TOOL_CALL) | HAND_BACK) : this.#enter(name, ...args);
  };

  #remember(fd: number, json: string, handler: ToolHandler): void {
    const { name, function: inner } = JSON.parse(json) as { name?: string; function?: { name: string } };
    const tools = this.#tools.get(fd) ?? new Map<string, ToolHandler>();
    this.#tools.set(fd, tools.set(String(inner?.name ?? name), handler));
  }

  async #send(fd: number, flags: number): Promise<number | bigint | undefined> {
    for (;;) {
      const response = await this.#enter('cchat_send', fd, flags);
      const pending = Number(response) < 0 ? [] : await this.#pending(Number(response));
      if (pending.length === 0) return response;
      for (const call of pending) {
        const content = await this.#run(fd, call);
        await this.#enter('cchat_write_tool_result', fd, ...this.#heap.text(call.id), ...this.#heap.text(content));
      }
      await this.#enter('cchat_close', Number(response));
    }
  }

  async #pending(response: number): Promise<readonly PendingCall[]> {
    this.#body ??= this.#heap.out(BODY_BYTES);
    const out = this.#body.offer(BODY_BYTES);
    await this.#enter('cchat_recv', response, ...out.args);
    const body = JSON.parse(out.text()) as { _spear?: { pending_tool_calls?: PendingCall[] } };
    return body._spear?.pending_tool_calls ?? [];
  }

  async #run(fd: number, { name, arguments: args }: PendingCall): Promise<string> {
    let answered = '';
    const call: ToolCall = {
      args,
      argsPtr: 0,
      argsLength: Buffer.byteLength(args),
      outPtr: 0,
      outLengthPtr: 0,
      capacity: Number.POSITIVE_INFINITY,
      answer(text) {
        answered = Buffer.from(text).toString();
        return 0;
      },
    };
    const rc = (await this.#tools.get(fd)?.get(name)?.(call)) ?? 0;
    return rc === 0 ? answered : `{"error":{"code":"tool_exec_failed","message":"tool rc: ${rc}"}}`;
  }
}
