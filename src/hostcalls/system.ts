import { abiVersion } from '../abi/calls.ts';
import { fail } from '../abi/errno.ts';
import type { Family } from './table.ts';

/** What `spear_feature` answers 1 to. */
export const features: ReadonlySet<string> = new Set([
  'cchat',
  'cchat.hand_back',
  'cchat.tool_choice',
  'epoll',
  'fd_cancel',
  'mcp',
  'mcp.submit',
]);

let crypto: typeof import('node:crypto') | undefined;

/** Loaded when the first guest asks: it would cost every other one some milliseconds of its start. */
export function fillRandom(bytes: NodeJS.ArrayBufferView): void {
  crypto ??= process.getBuiltinModule('node:crypto');
  crypto.randomFillSync(bytes);
}

const random = new BigInt64Array(64);
let unused = 0;

/** One call into the system's generator serves many: it is the call that is slow. */
function randomI64(): bigint {
  if (unused === 0) {
    fillRandom(random);
    unused = random.length;
  }
  unused--;
  const value = random[unused] as bigint;
  random[unused] = 0n;
  return value;
}

export const systemCalls: Family<
  'spear_abi_version' | 'spear_feature' | 'time_now_ms' | 'wall_time_s' | 'random_i64' | 'sleep_ms' | 'log'
> = {
  spear_abi_version: () => (abiVersion.major << 16) | abiVersion.minor,

  spear_feature: (_guest, name) => (name !== undefined && features.has(name) ? 1 : 0),

  time_now_ms: () => BigInt(Date.now()),

  wall_time_s: () => BigInt(Math.floor(Date.now() / 1000)),

  random_i64: randomI64,

  sleep_ms: (_guest, ms) => (ms <= 0 ? undefined : new Promise((resolve) => setTimeout(resolve, ms, undefined))),

  log(guest, level, message) {
    if (message === undefined) return fail.EINVAL;
    guest.log.write(level, message);
    return 0;
  },
};
