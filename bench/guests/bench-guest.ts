import { type CallName, calls } from '../../src/runtime/abi/calls.ts';
import { GuestMemory } from '../../src/runtime/abi/memory.ts';
import type { FdEntry } from '../../src/runtime/guest/descriptors/table.ts';
import { hostcalls } from '../../src/runtime/guest/hostcalls/all.ts';
import { GuestLog } from '../../src/runtime/guest/hostcalls/guest-log.ts';
import type { GuestState } from '../../src/runtime/guest/hostcalls/guest-state.ts';
import type { HostcallTable } from '../../src/runtime/guest/hostcalls/table.ts';
import { coreImports } from '../../test/support/core-imports.ts';
import { TestGuest, type TestGuestOptions } from '../../test/support/test-guest.ts';
import { loopModule } from './loop-module.ts';

/** Where texts and buffers lie in the guest's memory. */
const UNUSED_SLOT = 0;
const OUT_SLOT = 4;
const FIRST_ARG_SLOT = 8;
const FIRST_TEXT = 4096;
const OUT = 1 << 20;
const OUT_CAPACITY = 1 << 20;
const PAGES = 32;

/** Views of the guest's memory. It never grows here, so a bare import may keep them. */
export interface BareMemory {
  readonly bytes: FastBuffer;
  readonly words: DataView;
}

/** Node's fast string paths; `Buffer` has them, its type declarations do not. */
export interface FastBuffer extends Buffer {
  utf8Slice(start: number, end: number): string;
  utf8Write(text: string, offset: number, length: number): number;
}

/** A function that stands beside the hostcalls and does by hand what one of them cannot do without. */
export interface BareImport {
  readonly arity: number;
  readonly suspending?: boolean;
  /** @default i32 */
  readonly result?: 'i32' | 'i64';
  readonly make: (memory: BareMemory) => (...args: never[]) => number | bigint;
}

export interface BenchGuestOptions extends TestGuestOptions {
  readonly bare?: Readonly<Record<string, BareImport>>;
  /** What the imports are made of: how the guard is shown to notice a slower call. @default the real hostcalls */
  readonly table?: HostcallTable;
}

/** Loops over hostcalls in real wasm on this thread, with the imports, the port and the services of a real run. */
export class BenchGuest {
  /** Everything that its hostcalls share; another instance may be linked to it. */
  readonly state: GuestState;
  readonly #host: TestGuest;
  readonly #exports: WebAssembly.Instance['exports'];
  readonly #memory: WebAssembly.Memory;
  /** What is stored before a call, by the slot that the call names. */
  readonly #lengths = new Map<number, number>([[OUT_SLOT, OUT_CAPACITY]]);
  #nextText = FIRST_TEXT;
  #nextSlot = FIRST_ARG_SLOT;

  static async open(options: BenchGuestOptions = {}): Promise<BenchGuest> {
    return new BenchGuest(await TestGuest.open(options), options);
  }

  private constructor(host: TestGuest, { bare = {}, table = hostcalls }: BenchGuestOptions) {
    this.#host = host;
    const log = new GuestLog(
      { write: () => true },
      { verbose: false, bytesPerSecond: Number.MAX_SAFE_INTEGER, now: () => 0, onFirstDrop: () => {} },
    );
    this.state = { ...host.state, log };
    const memory = new GuestMemory();
    const counts = new Float64Array(calls.length);
    this.#memory = new WebAssembly.Memory({ initial: PAGES });
    memory.attach(this.#memory);
    const bareMemory = {
      bytes: Buffer.from(this.#memory.buffer) as FastBuffer,
      words: new DataView(this.#memory.buffer),
    };
    const yardsticks = Object.entries(bare).map(([name, { arity, result = 'i32' }]) => ({ name, arity, result }));
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(loopModule(yardsticks, PAGES)), {
      spear: coreImports(table, { guest: this.state, memory, counts }),
      bench: {
        memory: this.#memory,
        ...Object.fromEntries(Object.entries(bare).map(([name, one]) => [name, bareImport(one, bareMemory)])),
      },
    });
    this.#exports = exports;
  }

  /** Calls `name` `times` times from inside the guest, which is entered as a run enters it; gives the last result. */
  async loop(name: string, times: number, ...args: number[]): Promise<number> {
    const slot = args.findLast((arg) => this.#lengths.has(arg)) ?? UNUSED_SLOT;
    const length = this.#lengths.get(slot) ?? 0;
    const enter = WebAssembly.promising(this.#exports[name] as WebAssembly.GuestFunction);
    return Number(await enter(times, slot, length, ...args, 0));
  }

  /** One call, for setting things up. */
  call(name: CallName, ...args: number[]): Promise<number> {
    return this.loop(name, 1, ...args);
  }

  text(text: string): [ptr: number, length: number] {
    const bytes = Buffer.from(text);
    const ptr = this.#nextText;
    this.#nextText += bytes.byteLength;
    if (this.#nextText > OUT) throw new Error('the texts of the bench do not fit');
    Buffer.from(this.#memory.buffer).set(bytes, ptr);
    return [ptr, bytes.byteLength];
  }

  /** The out-buffer and the slot of its capacity, which is set before every call. */
  out(): [ptr: number, lengthPtr: number] {
    return [OUT, OUT_SLOT];
  }

  /** What the out-buffer holds after a call. */
  written(length: number): string {
    return Buffer.from(this.#memory.buffer, OUT, length).toString();
  }

  /** JSON for a `*_ctl` command. */
  arg(json: string): [ptr: number, lengthPtr: number] {
    const [ptr, length] = this.text(json);
    const slot = this.#nextSlot;
    this.#nextSlot += 4;
    this.#lengths.set(slot, length);
    return [ptr, slot];
  }

  /** A descriptor of something that no hostcall can make without a server. */
  openFd(entry: FdEntry): number {
    const fd = this.state.fds.open(entry);
    if (typeof fd !== 'number') throw new Error(`no descriptor: ${fd.name}`);
    return fd;
  }

  close(): Promise<void> {
    return this.#host.close();
  }
}

function bareImport({ suspending = false, make }: BareImport, memory: BareMemory): unknown {
  const made = make(memory);
  return suspending ? new WebAssembly.Suspending(made) : made;
}
