import { type CallName, calls } from '../src/abi/calls.ts';
import { GuestMemory } from '../src/abi/memory.ts';
import { compileLimits } from '../src/config/limits.ts';
import { bindCoreImports } from '../src/guest/core/bind.ts';
import { hostcalls } from '../src/hostcalls/all.ts';
import { GuestLog } from '../src/hostcalls/guest-log.ts';
import { TestGuest } from '../test/support/test-guest.ts';
import { BARE, BARE_SUSPENDING, loopModule } from './loop-module.ts';

/** Where texts and buffers lie in the guest's memory. */
const OUT_SLOT = 1024;
const FIRST_ARG_SLOT = 1028;
const FIRST_TEXT = 4096;
const OUT = 65_536;
const OUT_CAPACITY = 65_536;

/** Loops over hostcalls in real wasm on this thread, with the imports, the port and the chat service of a real run. */
export class BenchGuest {
  readonly #host: TestGuest;
  readonly #exports: WebAssembly.Instance['exports'];
  readonly #memory: WebAssembly.Memory;
  #nextText = FIRST_TEXT;
  #nextSlot = FIRST_ARG_SLOT;

  static async open(): Promise<BenchGuest> {
    return new BenchGuest(await TestGuest.open());
  }

  private constructor(host: TestGuest) {
    this.#host = host;
    const log = new GuestLog(
      { write: () => true },
      { verbose: false, bytesPerSecond: Number.MAX_SAFE_INTEGER, now: () => 0, onFirstDrop: () => {} },
    );
    const guest = { ...host.state, limits: compileLimits(), log };
    const memory = new GuestMemory();
    const counts = new Float64Array(calls.length);
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(loopModule()), {
      spear: bindCoreImports(hostcalls, { guest, memory, counts }),
      bench: {
        [BARE]: (a: number, b: number) => a + b,
        [BARE_SUSPENDING]: new WebAssembly.Suspending((a: number, b: number) => a + b),
      },
    });
    this.#exports = exports;
    this.#memory = exports.memory as WebAssembly.Memory;
    memory.attach(this.#memory);
  }

  /** Calls `name` `times` times; only for what never suspends. */
  loop(name: string, times: number, ...args: number[]): number {
    return Number((this.#exports[name] as WebAssembly.GuestFunction)(times, ...args, 0));
  }

  async suspendingLoop(name: string, times: number, ...args: number[]): Promise<number> {
    return Number(await WebAssembly.promising(this.#exports[name] as WebAssembly.GuestFunction)(times, ...args, 0));
  }

  /** One call, for setting things up. */
  call(name: CallName, ...args: number[]): number {
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

  /** The out-buffer, its length slot set to the whole capacity. */
  out(): [ptr: number, lengthPtr: number] {
    this.#setLength(OUT_SLOT, OUT_CAPACITY);
    return [OUT, OUT_SLOT];
  }

  /** JSON for a `*_ctl` command. */
  arg(json: string): [ptr: number, lengthPtr: number] {
    const [ptr, length] = this.text(json);
    const slot = this.#nextSlot;
    this.#nextSlot += 4;
    this.#setLength(slot, length);
    return [ptr, slot];
  }

  close(): Promise<void> {
    return this.#host.close();
  }

  #setLength(slot: number, length: number): void {
    new DataView(this.#memory.buffer).setUint32(slot, length, true);
  }
}
