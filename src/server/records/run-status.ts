export const runStatuses = [
  'queued',
  'running',
  'waiting',
  'parked',
  'succeeded',
  'failed',
  'cancelled',
  'dead',
] as const;
export type RunStatus = (typeof runStatuses)[number];
