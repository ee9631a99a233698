import { type Call, type CallName, calls } from '../../src/runtime/abi/calls.ts';
import { type ErrnoName, errno } from '../../src/runtime/abi/errno.ts';
import { componentCalls, hostInterface, withoutVersion } from '../../src/runtime/guest/component/calls.ts';
import { instantiateInFastLane } from '../../src/runtime/guest/component/fast-lane.ts';
import { glueInterface } from '../../src/runtime/guest/component/glue.ts';
import { hostcalls } from '../../src/runtime/guest/hostcalls/all.ts';
import type { GuestState } from '../../src/runtime/guest/hostcalls/guest-state.ts';
import { newCounters } from '../../src/runtime/host/guest-counters.ts';
import type { ForwarderComponent } from './forwarder-component.ts';

type Exported = (...given: unknown[]) => Promise<unknown>;

interface Ready {
  readonly fd: number;
  readonly events: number;
}

const rows = new Map<string, Call>(calls.map((row) => [row.name, row]));
const named = new Map(componentCalls.map(({ wit }) => [wit.call as string, camelCase(wit.name)]));
const RECORD_BYTES = 8;

/**
 * Drives the forwarder component with the parameters of the core ABI, as an SDK would that offered it: texts are read
 * from a memory beside the component, and what it gives is put into the out-buffer there. So one test serves both.
 */
export class ComponentInstance {
  readonly memory: WebAssembly.Memory;
  readonly #exports: Readonly<Record<string, unknown>>;

  constructor(component: ForwarderComponent, lane: 'fast lane' | 'glue', state: GuestState, pages: number) {
    this.memory = new WebAssembly.Memory({ initial: pages });
    const counts = newCounters(1);
    const imports = Object.fromEntries(
      component.imports.map((name) => [
        withoutVersion(name),
        glueInterface(hostcalls, state, counts, hostInterface(name) ?? ''),
      ]),
    );
    const fast = { table: hostcalls, guest: state, counts };
    const exports = component.instantiate(component.coreModule, imports, (module, given) =>
      lane === 'fast lane' ? instantiateInFastLane(fast, module, given) : new WebAssembly.Instance(module, given),
    );
    if (exports instanceof Promise) throw new Error('the forwarder was expected to be there at once');
    this.#exports = exports;
  }

  async enter(name: CallName, ...args: number[]): Promise<number | bigint | undefined> {
    const row = rows.get(name) as Call;
    const given: unknown[] = [];
    let out: { ptr: number; lengthPtr: number } | undefined;
    const left = [...args];
    const next = () => left.shift() as number;
    for (const { kind, name: param } of row.params) {
      if (kind === 'text') given.push(this.#text(next(), next()));
      else if (kind === 'bytes') given.push(this.#bytes(next(), next()));
      else if (kind === 'out') out = { ptr: next(), lengthPtr: next() };
      else if (kind === 'arg') {
        const place = { ptr: next(), lengthPtr: next() };
        const takes = row.commands[given.at(-1) as number]?.arg;
        if (takes === 'out') out = place;
        given.push(takes === 'in' ? this.#text(place.ptr, this.#words.getUint32(place.lengthPtr, true)) : '');
      } else if (param === 'fn_offset') next();
      else given.push(next());
    }
    if (out && name === 'spear_epoll_wait' && this.#capacity(out) < RECORD_BYTES) {
      throw new Error('a component has no buffer that could be too small');
    }
    try {
      const value = await (this.#exports[named.get(name) as string] as Exported)(...given);
      if (out) return this.#putOut(name, value, out);
      return row.result === 'none' ? undefined : toNumber(value);
    } catch (error) {
      const failed = typeof error === 'string' ? errno[error.toUpperCase() as ErrnoName] : undefined;
      if (failed === undefined) throw error;
      return -failed;
    }
  }

  get #words(): DataView {
    return new DataView(this.memory.buffer);
  }

  #capacity({ lengthPtr }: { lengthPtr: number }): number {
    return this.#words.getUint32(lengthPtr, true);
  }

  #bytes(ptr: number, length: number): Uint8Array {
    return new Uint8Array(this.memory.buffer.slice(ptr, ptr + length));
  }

  #text(ptr: number, length: number): string {
    return Buffer.from(this.memory.buffer, ptr, length).toString();
  }

  #putOut(name: CallName, value: unknown, out: { ptr: number; lengthPtr: number }): number {
    const bytes = name === 'spear_epoll_wait' ? encode(value as Ready[]) : Buffer.from(value as string);
    const fits = bytes.byteLength <= this.#capacity(out);
    if (fits) Buffer.from(this.memory.buffer).set(bytes, out.ptr);
    this.#words.setUint32(out.lengthPtr, bytes.byteLength, true);
    if (!fits) throw new Error(`${name} gave ${bytes.byteLength} bytes: give the test a larger buffer`);
    return name === 'spear_epoll_wait' ? bytes.byteLength / RECORD_BYTES : bytes.byteLength;
  }
}

/** `result<_, errno>` and an empty text are 0 in the core ABI. */
function toNumber(value: unknown): number | bigint {
  if (typeof value === 'bigint') return value;
  if (typeof value === 'boolean') return value ? 1 : 0;
  return typeof value === 'number' ? value : 0;
}

function encode(records: readonly Ready[]): Buffer {
  const bytes = Buffer.alloc(records.length * RECORD_BYTES);
  for (const [index, { fd, events }] of records.entries()) {
    bytes.writeInt32LE(fd, index * RECORD_BYTES);
    bytes.writeInt32LE(events, index * RECORD_BYTES + 4);
  }
  return bytes;
}

function camelCase(name: string): string {
  return name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}
