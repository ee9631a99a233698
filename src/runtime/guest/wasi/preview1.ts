/*
 * WASI preview 1 for guests without a file system: arguments, environment, clocks, entropy, standard streams, `poll_oneoff`
 * on clocks. Everything else links and returns ENOSYS. Not `node:wasi`, which is not meant for untrusted code.
 *
 * Pointers and counts are unsigned; every range is checked before it is read or written. Calls that wait suspend the guest.
 */
import { wasiErrno } from '../../abi/errno.ts';
import type { GuestMemory } from '../../abi/memory.ts';
import type { DeterministicSources } from '../../durable/guest/sources.ts';
import { type CancellationScope, suspending } from '../cancellation-scope.ts';
import type { Output } from '../hostcalls/output.ts';

/** Everything that a guest sees of the system. */
export interface WasiOptions {
  readonly memory: GuestMemory;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly output: Output;
  readonly sources: DeterministicSources;
  /** Up to `maxBytes` of stdin, an empty chunk at its end. The host thread reads, because a blocked worker cannot be terminated. */
  readonly readStdin: (maxBytes: number) => Promise<Uint8Array>;
  /** Ends the guest by throwing a trap. */
  readonly exit: (code: number) => never;
  /** @default null: the guest has a dedicated thread */
  readonly scope?: CancellationScope | null;
}

type Import = (...args: number[]) => unknown;

const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;

const CHARACTER_DEVICE = 2;
const RIGHT_FD_READ = 1n << 1n;
const RIGHT_FD_WRITE = 1n << 6n;
const FDSTAT_BYTES = 24;

/** Upper bound of one read, to bound memory. */
const MAX_READ_BYTES = 1024 * 1024;
const MAX_RANDOM_BYTES = 65_536;
/** IOV_MAX of Linux; a list is copied before use. */
const MAX_IOVECS = 1024;

export function preview1(options: WasiOptions): Record<string, Import | WebAssembly.Suspending> {
  const { memory, output, sources, scope = null } = options;
  const args = options.args.map(terminated);
  const env = Object.entries(options.env).map(([name, value]) => terminated(`${name}=${value}`));

  const isOpen = (fd: number | undefined) => fd === STDIN || fd === STDOUT || fd === STDERR;

  /** The buffers of an iovec list, or undefined if one leaves the memory. */
  function buffers(list: number | undefined, count: number | undefined): { ptr: number; length: number }[] | undefined {
    const start = u32(list);
    if (!memory.holds(start, u32(count) * 8)) return undefined;
    const found: { ptr: number; length: number }[] = [];
    for (let index = 0; index < u32(count); index++) {
      const ptr = memory.words.getUint32(start + index * 8, true);
      const length = memory.words.getUint32(start + index * 8 + 4, true);
      if (!memory.holds(ptr, length)) return undefined;
      found.push({ ptr, length });
    }
    return found;
  }

  function sizes(list: readonly Uint8Array[], countPtr: number | undefined, bytesPtr: number | undefined): number {
    if (!memory.holds(u32(countPtr), 4) || !memory.holds(u32(bytesPtr), 4)) return wasiErrno.FAULT;
    memory.words.setUint32(u32(countPtr), list.length, true);
    memory.words.setUint32(u32(bytesPtr), totalBytes(list), true);
    return wasiErrno.SUCCESS;
  }

  function strings(list: readonly Uint8Array[], pointers: number | undefined, target: number | undefined): number {
    if (!memory.holds(u32(pointers), list.length * 4) || !memory.holds(u32(target), totalBytes(list)))
      return wasiErrno.FAULT;
    let at = u32(target);
    for (const [index, bytes] of list.entries()) {
      memory.words.setUint32(u32(pointers) + index * 4, at, true);
      memory.bytes.set(bytes, at);
      at += bytes.byteLength;
    }
    return wasiErrno.SUCCESS;
  }

  function write(fd?: number, list?: number, count?: number, nwritten?: number): number {
    if (fd !== STDOUT && fd !== STDERR) return wasiErrno.BADF;
    if (u32(count) > MAX_IOVECS) return wasiErrno.INVAL;
    const parts = buffers(list, count);
    if (!parts || !memory.holds(u32(nwritten), 4)) return wasiErrno.FAULT;
    let written = 0;
    for (const { ptr, length } of parts) {
      if (!output.write(fd === STDOUT ? 'stdout' : 'stderr', memory.bytes.subarray(ptr, ptr + length)))
        return wasiErrno.IO;
      written += length;
    }
    memory.words.setUint32(u32(nwritten), written, true);
    return wasiErrno.SUCCESS;
  }

  /** For an output whose `write` does not wait. */
  function writeThenWait(fd: number, list: number, count: number, nwritten: number): number | Promise<number> {
    const errno = write(fd, list, count, nwritten);
    return output.room?.()?.then(() => errno) ?? errno;
  }

  async function readInto(list: readonly { ptr: number; length: number }[], nread: number): Promise<number> {
    const wanted = Math.min(
      list.reduce((sum, { length }) => sum + length, 0),
      MAX_READ_BYTES,
    );
    let chunk = wanted === 0 ? new Uint8Array() : await options.readStdin(wanted);
    memory.words.setUint32(nread, chunk.byteLength, true);
    for (const { ptr, length } of list) {
      memory.bytes.set(chunk.subarray(0, length), ptr);
      chunk = chunk.subarray(length);
    }
    return wasiErrno.SUCCESS;
  }

  return {
    args_sizes_get: (count, bytes) => sizes(args, count, bytes),
    args_get: (pointers, target) => strings(args, pointers, target),
    environ_sizes_get: (count, bytes) => sizes(env, count, bytes),
    environ_get: (pointers, target) => strings(env, pointers, target),

    clock_time_get(id, _precision, out) {
      if (!isClock(id as number)) return wasiErrno.INVAL;
      if (!memory.holds(u32(out), 8)) return wasiErrno.FAULT;
      memory.words.setBigUint64(u32(out), clockNow(sources, id as number), true);
      return wasiErrno.SUCCESS;
    },

    clock_res_get(id, out) {
      if (!isClock(id as number)) return wasiErrno.INVAL;
      if (!memory.holds(u32(out), 8)) return wasiErrno.FAULT;
      memory.words.setBigUint64(u32(out), clockResolution(id as number), true);
      return wasiErrno.SUCCESS;
    },

    random_get(ptr, length) {
      if (!memory.holds(u32(ptr), u32(length))) return wasiErrno.FAULT;
      const target = memory.bytes.subarray(u32(ptr), u32(ptr) + u32(length));
      for (let at = 0; at < target.byteLength; at += MAX_RANDOM_BYTES) {
        sources.fillRandom(target.subarray(at, at + MAX_RANDOM_BYTES));
      }
      return wasiErrno.SUCCESS;
    },

    fd_write: scope === null ? write : suspending(scope, writeThenWait),

    fd_read: suspending(scope, (fd: number, list: number, count: number, nread: number) => {
      if (fd !== STDIN) return wasiErrno.BADF;
      if (u32(count) > MAX_IOVECS) return wasiErrno.INVAL;
      const parts = buffers(list, count);
      return parts && memory.holds(u32(nread), 4) ? readInto(parts, u32(nread)) : wasiErrno.FAULT;
    }),

    fd_fdstat_get(fd, out) {
      if (!isOpen(fd)) return wasiErrno.BADF;
      if (!memory.holds(u32(out), FDSTAT_BYTES)) return wasiErrno.FAULT;
      memory.bytes.fill(0, u32(out), u32(out) + FDSTAT_BYTES);
      memory.words.setUint8(u32(out), CHARACTER_DEVICE);
      memory.words.setBigUint64(u32(out) + 8, fd === STDIN ? RIGHT_FD_READ : RIGHT_FD_WRITE, true);
      return wasiErrno.SUCCESS;
    },

    fd_close: (fd) => (isOpen(fd) ? wasiErrno.SUCCESS : wasiErrno.BADF),
    fd_seek: (fd) => (isOpen(fd) ? wasiErrno.SPIPE : wasiErrno.BADF),
    fd_prestat_get: () => wasiErrno.BADF, // the end of the list of preopens; ENOSYS makes wasi-libc and Go give up

    proc_exit: (code) => options.exit(code as number),
    sched_yield: () => wasiErrno.SUCCESS,
    poll_oneoff: suspending(scope, (subscriptions: number, events: number, count: number, nevents: number) =>
      pollOneoff(memory, sources, subscriptions, events, count, nevents),
    ),
  };
}

const u32 = (value: number | undefined): number => (value as number) >>> 0;
const terminated = (text: string): Uint8Array => Buffer.from(`${text}\0`);
const totalBytes = (list: readonly Uint8Array[]): number => list.reduce((sum, { byteLength }) => sum + byteLength, 0);

const REALTIME = 0;
const CLOCKS = 4;

export const isClock = (id: number): boolean => id >= 0 && id < CLOCKS;

/** Nanoseconds. Every clock but the realtime clock is the monotonic one. */
export const clockNow = (sources: DeterministicSources, id: number): bigint =>
  id === REALTIME ? BigInt(sources.wallMs()) * 1_000_000n : sources.monotonicNs();

export const clockResolution = (id: number): bigint => (id === REALTIME ? 1_000_000n : 1n);

const SUBSCRIPTION_BYTES = 48;
const EVENT_BYTES = 32;
const MAX_SUBSCRIPTIONS = 4096;

const CLOCK = 0;
const FD_READ = 1;
const FD_WRITE = 2;
const ABSOLUTE = 1;

const NS_PER_MS = 1_000_000n;
const MAX_TIMER_MS = 2_147_483_647n;

interface Event {
  readonly userdata: bigint;
  readonly type: number;
  readonly error: number;
  /** Nanoseconds from now. */
  readonly dueNs: bigint;
}

/** Waits for clocks without blocking the thread. Standard streams are always ready, because reading them suspends. */
export function pollOneoff(
  memory: GuestMemory,
  sources: DeterministicSources,
  subscriptionsPtr: number,
  eventsPtr: number,
  count: number,
  neventsPtr: number,
): number | Promise<number> {
  const [from, to, n, result] = [subscriptionsPtr >>> 0, eventsPtr >>> 0, count >>> 0, neventsPtr >>> 0];
  if (n === 0 || n > MAX_SUBSCRIPTIONS) return wasiErrno.INVAL;
  const inside =
    memory.holds(from, n * SUBSCRIPTION_BYTES) && memory.holds(to, n * EVENT_BYTES) && memory.holds(result, 4);
  if (!inside) return wasiErrno.FAULT;

  const events = Array.from({ length: n }, (_, index) =>
    subscription(memory, sources, from + index * SUBSCRIPTION_BYTES),
  );
  let soonest = MAX_TIMER_MS * NS_PER_MS;
  for (const { dueNs } of events) if (dueNs < soonest) soonest = dueNs;
  if (soonest < 0n) soonest = 0n;
  const finish = () =>
    writeEvents(
      memory,
      to,
      result,
      events.filter(({ dueNs }) => dueNs <= soonest),
    );
  if (soonest === 0n) return finish();
  const ms = Number((soonest + NS_PER_MS - 1n) / NS_PER_MS);
  return new Promise((resolve) => sources.after(ms, () => resolve(finish())));
}

function subscription(memory: GuestMemory, sources: DeterministicSources, at: number): Event {
  const words = memory.words;
  const userdata = words.getBigUint64(at, true);
  const type = words.getUint8(at + 8);
  if (type === CLOCK) {
    const clock = words.getUint32(at + 16, true);
    if (!isClock(clock)) return { userdata, type, error: wasiErrno.INVAL, dueNs: 0n };
    const timeout = words.getBigUint64(at + 24, true);
    const absolute = words.getUint16(at + 40, true) & ABSOLUTE;
    return { userdata, type, error: wasiErrno.SUCCESS, dueNs: absolute ? timeout - clockNow(sources, clock) : timeout };
  }
  const fd = words.getUint32(at + 16, true);
  const ready = (type === FD_READ && fd === 0) || (type === FD_WRITE && (fd === 1 || fd === 2));
  return { userdata, type, error: ready ? wasiErrno.SUCCESS : wasiErrno.BADF, dueNs: 0n };
}

function writeEvents(memory: GuestMemory, to: number, result: number, events: readonly Event[]): number {
  for (const [index, { userdata, type, error }] of events.entries()) {
    const at = to + index * EVENT_BYTES;
    memory.bytes.fill(0, at, at + EVENT_BYTES);
    memory.words.setBigUint64(at, userdata, true);
    memory.words.setUint16(at + 8, error, true);
    memory.words.setUint8(at + 10, type);
  }
  memory.words.setUint32(result, events.length, true);
  return wasiErrno.SUCCESS;
}
