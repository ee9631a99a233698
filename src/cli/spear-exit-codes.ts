/** What `spear` exits with; scripts rely on them. */
export const spearExitCodes = {
  ok: 0,
  /** There is no such server, the record is not valid, the test failed, or the registry refused for another reason. */
  failed: 1,
  usage: 2,
  unreachable: 3,
  denied: 4,
} as const;
