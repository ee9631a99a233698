// Exit codes; scripts rely on them.

/** `spear-run`, where the exit code is not that of the guest. */
export const exitCodes = {
  /** A replayed run differs from its journal. */
  diverged: 123,
  deadline: 124,
  usage: 125,
  hungUp: 129,
  interrupted: 130,
  trap: 134,
  terminated: 143,
} as const;

/** `spear`. */
export const spearExitCodes = {
  ok: 0,
  /** Not found, invalid, failed, or refused by the registry. */
  failed: 1,
  usage: 2,
  unreachable: 3,
  denied: 4,
} as const;

/** Wrong command line; the message names the flag and the fix. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UsageError';
  }
}
