import { MAX_GUEST_TOOL_OUTPUT_BYTES } from '../../abi/chat-params.ts';
import { errno } from '../../abi/errno.ts';
import { NO_FUNCTION_TABLE } from '../../abi/guest-module.ts';
import type { GuestMemory } from '../../abi/memory.ts';
import type { Arena, ToolRequest } from '../descriptors/chat-entries.ts';
import type { ToolAnswer } from '../hostcalls/guest-state.ts';

const LENGTH_SLOT_BYTES = 8;
const CALLBACK_PARAMETERS = 4;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }); // a byte order mark is part of the output

type SuspendableTool = ReturnType<typeof WebAssembly.promising>;

const failed = (rc: number, why = ''): ToolAnswer => ({ rc, content: why });
const align = (value: number, to: number) => Math.ceil(value / to) * to;

/** The exported function table: the name of C and Rust, then of AssemblyScript, else the first table. */
export function functionTable(
  exports: Readonly<Record<string, WebAssembly.ExportValue>>,
): WebAssembly.Table | undefined {
  const named = [exports.__indirect_function_table, exports.table, ...Object.values(exports)];
  return named.find((value) => value instanceof WebAssembly.Table);
}

/**
 * Calls a guest tool: `(args_ptr, args_len, out_ptr, out_len_ptr) → i32`, with all buffers in the arena that the guest
 * reserved. The callback may grow the memory, make hostcalls and be suspended, so nothing read before it is used after it.
 */
export class CoreToolRunner {
  readonly #memory: GuestMemory;
  readonly #table: WebAssembly.Table | undefined;
  readonly #ending: () => boolean;
  readonly #notice: (text: string) => void;
  /** perf: creating a promising function costs more than calling it. */
  readonly #suspendable = new WeakMap<WebAssembly.GuestFunction, SuspendableTool>();
  /** A tool was called and the module exports no function table. */
  unreachable = false;

  /** `ending`: the guest is being ended, so a trap is not the tool's failure. */
  constructor(
    memory: GuestMemory,
    table: WebAssembly.Table | undefined,
    ending: () => boolean,
    notice: (text: string) => void,
  ) {
    this.#memory = memory;
    this.#table = table;
    this.#ending = ending;
    this.#notice = notice;
  }

  async run(request: ToolRequest, arena: Arena): Promise<ToolAnswer> {
    if (request.fnOffset < 0) return failed(-errno.EIO, 'it was registered without a callback, to be handed back');
    if (!this.#table) {
      this.unreachable = true;
      return failed(-errno.EIO, NO_FUNCTION_TABLE);
    }
    const tool = this.#function(this.#table, request.fnOffset);
    if (!tool) {
      const why = `slot ${request.fnOffset} of the function table holds no function of four parameters`;
      this.#notice(`a guest tool cannot be called: ${why}`);
      return failed(-errno.EIO, why);
    }
    if (arena.length === 0) {
      const why = 'tool_arena_ptr and tool_arena_len are not set';
      this.#notice(`a guest tool cannot be called: ${why}`);
      return failed(-errno.ENOSPC, why);
    }
    if (!this.#memory.holds(arena.ptr, arena.length)) return failed(-errno.EFAULT);

    const args = Buffer.from(request.args);
    const out = align(arena.ptr + args.byteLength + 1, 8);
    const room = arena.ptr + arena.length - out - LENGTH_SLOT_BYTES;
    if (room < 0) return failed(-errno.ENOSPC);

    const capacity = Math.min(room, request.maxOutputBytes);
    const first = await this.#call(tool, args, arena.ptr, out, capacity);
    if (first.rc !== -errno.ENOSPC) return first.answer;
    const fits = first.length <= room && first.length <= MAX_GUEST_TOOL_OUTPUT_BYTES;
    if (!fits) return first.answer;
    return (await this.#call(tool, args, arena.ptr, out, first.length)).answer;
  }

  /** Cached by function, not by slot: the guest may replace the function in a slot. */
  #function(table: WebAssembly.Table, index: number): SuspendableTool | undefined {
    if (index < 0 || index >= table.length) return undefined;
    const fn = table.get(index);
    if (fn?.length !== CALLBACK_PARAMETERS) return undefined;
    const known = this.#suspendable.get(fn);
    if (known) return known;
    const made = WebAssembly.promising(fn);
    this.#suspendable.set(fn, made);
    return made;
  }

  async #call(
    tool: SuspendableTool,
    args: Buffer,
    argsPtr: number,
    out: number,
    capacity: number,
  ): Promise<{ rc: number; length: number; answer: ToolAnswer }> {
    const lengthPtr = align(out + capacity, 4);
    this.#memory.bytes.set(args, argsPtr);
    this.#memory.bytes[argsPtr + args.byteLength] = 0;
    this.#memory.words.setUint32(lengthPtr, capacity, true);
    let rc: number;
    try {
      const returned = await tool(argsPtr, args.byteLength, out, lengthPtr);
      rc = typeof returned === 'number' ? returned : -errno.EIO;
    } catch (error) {
      if (this.#ending()) throw error;
      rc = -errno.EIO;
    }
    const length = this.#memory.words.getUint32(lengthPtr, true);
    return { rc, length, answer: rc === 0 ? this.#output(out, length, capacity) : failed(rc) };
  }

  #output(out: number, length: number, capacity: number): ToolAnswer {
    if (length > capacity) return failed(-errno.EIO);
    try {
      return { rc: 0, content: utf8.decode(this.#memory.bytes.subarray(out, out + length)) };
    } catch {
      return failed(-errno.EIO);
    }
  }
}
