/** What `spear-run` exits with when it is not the guest's own code. */
export const exitCodes = {
  deadline: 124,
  usage: 125,
  hungUp: 129,
  interrupted: 130,
  trap: 134,
  terminated: 143,
} as const;
