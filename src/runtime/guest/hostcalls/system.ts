import { abiVersion } from '../../abi/calls.ts';
import { fail } from '../../abi/errno.ts';
import type { Family } from './table.ts';

/** Features for which `spear_feature` returns 1. */
export const features: ReadonlySet<string> = new Set([
  'cchat',
  'cchat.hand_back',
  'cchat.stream',
  'cchat.tool_choice',
  'epoll',
  'fd_cancel',
  'mcp',
  'mcp.prompts',
  'mcp.resources',
  'mcp.submit',
  'user_stream',
]);

export const systemCalls: Family<
  'spear_abi_version' | 'spear_feature' | 'time_now_ms' | 'wall_time_s' | 'random_i64' | 'sleep_ms' | 'log'
> = {
  spear_abi_version: () => (abiVersion.major << 16) | abiVersion.minor,

  spear_feature: (_guest, name) => (name !== undefined && features.has(name) ? 1 : 0),

  time_now_ms: ({ sources }) => BigInt(sources.wallMs()),

  wall_time_s: ({ sources }) => BigInt(Math.floor(sources.wallMs() / 1000)),

  random_i64: ({ sources }) => sources.randomI64(),

  sleep_ms: ({ sources }, ms) =>
    ms <= 0 ? undefined : new Promise((resolve) => sources.after(ms, () => resolve(undefined))),

  log(guest, level, message) {
    if (message === undefined) return fail.EINVAL;
    guest.log.write(level, message);
    return 0;
  },
};
