import { MessageChannel, type MessagePort } from 'node:worker_threads';
import type { ChatBackend } from '../../src/agent/chat/backend.ts';
import type { ScriptTurn } from '../../src/agent/chat/backends/script-schema.ts';
import type { ChatService } from '../../src/run/chat-service.ts';
import type { McpService } from '../../src/run/mcp-service.ts';
import type { StreamHub } from '../../src/run/streams/stream-hub.ts';
import { type Call, type CallName, calls } from '../../src/runtime/abi/calls.ts';
import { type ErrnoName, errno, errnoNames } from '../../src/runtime/abi/errno.ts';
import { GuestMemory } from '../../src/runtime/abi/memory.ts';
import { systemSources } from '../../src/runtime/durable/guest/sources.ts';
import { CoreToolRunner, functionTable } from '../../src/runtime/guest/core/tool-runner.ts';
import { WaitPoint } from '../../src/runtime/guest/descriptors/readiness.ts';
import { FdTable } from '../../src/runtime/guest/descriptors/table.ts';
import { hostcalls } from '../../src/runtime/guest/hostcalls/all.ts';
import { GuestLog } from '../../src/runtime/guest/hostcalls/guest-log.ts';
import type { GuestState, ToolRunner } from '../../src/runtime/guest/hostcalls/guest-state.ts';
import { newCounters } from '../../src/runtime/host/guest-counters.ts';
import type { StandardStream } from '../../src/runtime/port/guest-spec.ts';
import { compileLimits, type LimitName } from '../../src/runtime/port/limits.ts';
import { mcpParamCheck } from '../../src/runtime/port/mcp-params.ts';
import { disabledTask } from '../../src/runtime/port/policy-layers.ts';
import { type McpSide, ObservedBackend, scripted, serveGuest } from './chat-host.ts';
import { ComponentInstance } from './component-instance.ts';
import { coreImports, linkTo } from './core-imports.ts';
import { forwarderModule, slot } from './forwarder.ts';
import type { ForwarderComponent } from './forwarder-component.ts';
import { type GuestBinding, guestBinding, isCore } from './guest-binding.ts';
import { GuestHeap } from './guest-heap.ts';
import { HandBackLoop } from './hand-back-loop.ts';
import { SharedCompany } from './shared-company.ts';

export interface TestGuestOptions {
  /** @default one turn that answers "hello" to everything */
  readonly turns?: readonly ScriptTurn[];
  /** Another backend than a script. The guest closes it. */
  readonly backend?: ChatBackend;
  readonly limits?: Partial<Record<LimitName, number>>;
  /** Pages of memory at the start. @default 16 */
  readonly pages?: number;
  readonly verbose?: boolean;
  /** Whether the host serves user streams; clients connect to {@link TestGuest.streams}. @default false */
  readonly streams?: boolean;
  /** Asked when the guest is opened; whoever made it closes it. @default a host without MCP */
  readonly mcp?: () => McpSide | Promise<McpSide>;
}

/** What a callback of the guest was called with. */
export interface ToolCall {
  readonly args: string;
  readonly argsPtr: number;
  readonly argsLength: number;
  readonly outPtr: number;
  readonly outLengthPtr: number;
  /** What the length slot held. */
  readonly capacity: number;
  /** Writes an answer into the out area, as a tool does. */
  answer(text: string | Uint8Array): 0;
}

export type ToolHandler = (call: ToolCall) => number | Promise<number>;

const rows = new Map<CallName, Call>(calls.map((row) => [row.name, row]));
const modules = new Map<number, WebAssembly.Module>();

export const HELLO: readonly ScriptTurn[] = [{ reply: { content: 'hello' }, repeat: true }];

/** Makes a call from inside the guest. */
type Enter = (name: CallName, ...args: number[]) => Promise<number | bigint | undefined>;

/** A guest in this thread: real wasm, real imports, a real port, and the real chat service at its other end. */
export class TestGuest {
  readonly state: GuestState;
  readonly backend: ObservedBackend;
  readonly service: ChatService;
  readonly heap: GuestHeap;
  readonly streams: StreamHub;
  readonly notices: string[] = [];
  readonly output: [stream: StandardStream, text: string][] = [];
  /** Whether a function of the wrong type was entered. */
  calledWithAnotherType = false;
  /** Every errno that a call gave, as `call errno`. */
  readonly produced = new Set<string>();
  readonly #memory = new GuestMemory();
  readonly #enter: Enter;
  readonly #ports: readonly MessagePort[];
  readonly #mcp: McpService;
  readonly #handlers: ToolHandler[] = [];
  readonly #handlerErrors: unknown[] = [];

  static async open(options: TestGuestOptions = {}): Promise<TestGuest> {
    const binding = guestBinding();
    const component = isCore(binding) ? undefined : await loadForwarder();
    const backend = options.backend ? new ObservedBackend(options.backend) : await scripted(options.turns ?? HELLO);
    return new TestGuest(backend, (await options.mcp?.()) ?? null, options, binding, component);
  }

  private constructor(
    backend: ObservedBackend,
    side: McpSide | null,
    { limits: given = {}, pages = 16, verbose = false, streams: areServed = false }: TestGuestOptions,
    binding: GuestBinding,
    component: ForwarderComponent | undefined,
  ) {
    const limits = compileLimits(given);
    const { port1, port2 } = new MessageChannel();
    this.#ports = [port1, port2];
    const notice = (text: string) => void this.notices.push(text);
    this.backend = backend;
    const { chat, mcp, streams } = serveGuest(port2, backend, side);
    this.streams = streams;
    this.service = chat;
    this.#mcp = mcp;

    let runTool: ToolRunner = async () => ({ rc: -errno.EIO, content: '' });
    const wait = new WaitPoint();
    const output = {
      write: (stream: StandardStream, bytes: Uint8Array) =>
        this.output.push([stream, Buffer.from(bytes).toString()]) > 0,
    };
    this.state = {
      fds: new FdTable(limits.max_fds),
      wait,
      link: linkTo(port1, wait),
      limits,
      sources: systemSources,
      log: new GuestLog(output, {
        verbose,
        bytesPerSecond: limits.log_bytes_per_second,
        now: () => performance.now(),
        onFirstDrop: () => notice('log lines are dropped'),
      }),
      runTool: (...request) => runTool(...request),
      streams: { areServed, open: new Set(), ctl: null, rest: null },
      waitingTools: [],
      chatBytes: 0,
      closingSessions: 0,
      mcpBytes: 0,
      answerBytes: 0,
      checkMcpParam: mcpParamCheck(side?.guest.task ?? disabledTask),
      depth: 0,
      notice,
    };
    if (component && (binding === 'fast lane' || binding === 'glue')) {
      const instance = new ComponentInstance(component, binding, this.state, pages);
      this.heap = new GuestHeap(instance.memory);
      this.#enter = new HandBackLoop(
        (name, ...args) => instance.enter(name, ...args),
        this.heap,
        (index) => this.#handlers[index - slot.firstCallback],
      ).enter;
    } else {
      const company = binding === 'shared' ? new SharedCompany(output, limits.turn_ms) : null;
      const exports = this.#coreInstance(pages, company);
      this.heap = new GuestHeap(exports.memory as WebAssembly.Memory);
      const memory = this.#memory;
      memory.attach(this.heap.memory);
      const tools = new CoreToolRunner(memory, functionTable(exports), () => false, notice);
      runTool = (...request) => tools.run(...request);
      this.#enter = (name, ...args) => {
        company?.timeIsUp();
        return WebAssembly.promising(exports[name] as WebAssembly.GuestFunction)(...args);
      };
    }
  }

  #coreInstance(pages: number, company: SharedCompany | null): WebAssembly.Instance['exports'] {
    const { module, imports } = company?.forwarder(pages) ?? { module: forwarder(pages), imports: {} };
    const scope = company?.scope ?? null;
    const { exports } = new WebAssembly.Instance(module, {
      ...imports,
      spear: coreImports(hostcalls, { guest: this.state, memory: this.#memory, counts: newCounters(1), scope }),
      test: {
        callback: new WebAssembly.Suspending((...args: [number, number, number, number, number]) =>
          this.#callback(...args),
        ),
        called_with_another_type: () => {
          this.calledWithAnotherType = true;
        },
      },
    });
    return exports;
  }

  /** Makes a hostcall from inside the guest. An errno that the row of the call does not have is a failure of the test. */
  async call(name: CallName, ...args: number[]): Promise<number> {
    const result = await this.enter(name, ...args);
    if (typeof result !== 'number') throw new Error(`${name} gave ${String(result)}`);
    return result;
  }

  /** The same for calls whose result is not an i32. */
  async enter(name: CallName, ...args: number[]): Promise<number | bigint | undefined> {
    const result = await this.#enter(name, ...args);
    if (typeof result === 'number' && result < 0) this.produced.add(`${name} ${checkDocumented(name, result)}`);
    return result;
  }

  /** A slot of the function table whose function is `handler`. */
  tool(handler: ToolHandler): number {
    return slot.firstCallback + this.#handlers.push(handler) - 1;
  }

  text(text: string | Uint8Array): [ptr: number, length: number] {
    return this.heap.text(text);
  }

  /** Ends everything, and fails if a callback of the test did. */
  async close(): Promise<void> {
    this.state.fds.closeAll();
    await this.#mcp.close();
    await this.service.close();
    await this.backend.close();
    for (const port of this.#ports) port.close();
    if (this.#handlerErrors.length > 0) throw this.#handlerErrors[0];
  }

  async #callback(
    index: number,
    argsPtr: number,
    argsLength: number,
    outPtr: number,
    outLengthPtr: number,
  ): Promise<number> {
    const heap = this.heap;
    const handler = this.#handlers[index];
    try {
      if (!handler) throw new Error(`no test callback in slot ${index + slot.firstCallback}`);
      return await handler({
        args: heap.bytes.toString('utf8', argsPtr, argsPtr + argsLength),
        argsPtr,
        argsLength,
        outPtr,
        outLengthPtr,
        capacity: heap.bytes.readUInt32LE(outLengthPtr),
        answer(text) {
          const bytes = Buffer.from(text);
          bytes.copy(heap.bytes, outPtr);
          heap.bytes.writeUInt32LE(bytes.byteLength, outLengthPtr);
          return 0;
        },
      });
    } catch (error) {
      this.#handlerErrors.push(error);
      throw error;
    }
  }
}

/** The name of the errno that a call gave, if its row has it. */
export function checkDocumented(call: CallName, result: number): ErrnoName {
  const name = errnoNames.find((known) => errno[known] === -result);
  if (name && rows.get(call)?.errnos[name] !== undefined) return name;
  throw new Error(`${call} gave ${result} (${name}), which its row does not have`);
}

/** Loaded only where components are tested: jco is large. */
async function loadForwarder(): Promise<ForwarderComponent> {
  const { forwarderComponent } = await import('./forwarder-component.ts');
  return forwarderComponent();
}

function forwarder(pages: number): WebAssembly.Module {
  const module = modules.get(pages) ?? new WebAssembly.Module(forwarderModule(pages));
  modules.set(pages, module);
  return module;
}
