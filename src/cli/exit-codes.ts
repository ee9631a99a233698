// What the commands exit with; scripts rely on it.

/** Of `spear-run`, when it is not the guest's own code. */
export const exitCodes = {
  /** A replayed run did something else than what was recorded. */
  diverged: 123,
  deadline: 124,
  usage: 125,
  hungUp: 129,
  interrupted: 130,
  trap: 134,
  terminated: 143,
} as const;

/** Of `spear`. */
export const spearExitCodes = {
  ok: 0,
  /** There is no such server, the record is not valid, the test failed, or the registry refused for another reason. */
  failed: 1,
  usage: 2,
  unreachable: 3,
  denied: 4,
} as const;
