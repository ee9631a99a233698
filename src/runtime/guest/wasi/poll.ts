import { wasiErrno } from '../../abi/errno.ts';
import type { GuestMemory } from '../../abi/memory.ts';
import type { Chance } from '../../durable/guest/chance.ts';
import { clockNow, isClock } from './clock.ts';

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

/** Clocks wait without holding the thread. The standard streams are always ready: reading them suspends by itself. */
export function pollOneoff(
  memory: GuestMemory,
  chance: Chance,
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
    subscription(memory, chance, from + index * SUBSCRIPTION_BYTES),
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
  return new Promise((resolve) => chance.after(ms, () => resolve(finish())));
}

function subscription(memory: GuestMemory, chance: Chance, at: number): Event {
  const words = memory.words;
  const userdata = words.getBigUint64(at, true);
  const type = words.getUint8(at + 8);
  if (type === CLOCK) {
    const clock = words.getUint32(at + 16, true);
    if (!isClock(clock)) return { userdata, type, error: wasiErrno.INVAL, dueNs: 0n };
    const timeout = words.getBigUint64(at + 24, true);
    const absolute = words.getUint16(at + 40, true) & ABSOLUTE;
    return { userdata, type, error: wasiErrno.SUCCESS, dueNs: absolute ? timeout - clockNow(chance, clock) : timeout };
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
