import { z } from 'zod';
import { type RunStatus, runStatuses } from './run-status.ts';

export { type RunStatus, runStatuses };

/** Final statuses. */
export const endStatuses = ['succeeded', 'failed', 'cancelled', 'dead'] as const;
export type EndStatus = (typeof endStatuses)[number];

export const hasEnded = (status: RunStatus): status is EndStatus => endStatuses.some((end) => end === status);

/** How the guest ended, as in the output of `spear-run --json`. */
const runExit = z.object({
  reason: z.string().meta({ description: 'exit, deadline, trap, memory, module, interrupted, journal, lost, …' }),
  code: z.int().nullable().meta({ description: 'exit code of the guest; null unless the reason is exit' }),
  message: z.string().nullable(),
});
export type RunExit = z.infer<typeof runExit>;

const runCost = z.object({
  model_calls: z.int(),
  tool_calls: z.int(),
  tokens: z
    .record(z.string(), z.number())
    .meta({ description: 'token usage that model responses reported, summed by field name' }),
});
export type RunCost = z.infer<typeof runCost>;

/** What a parked run waits for. */
export const parkedFor = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('approval'),
    request: z.string().meta({
      description:
        'ids of approval requests in the registry, separated by spaces; a decision on any of them resumes the run',
    }),
  }),
  z.object({ kind: z.literal('time'), atMs: z.int().meta({ description: 'milliseconds since the Unix epoch' }) }),
  z.object({ kind: z.literal('stream') }),
  z.object({
    kind: z.literal('stop'),
    stop: z.string().meta({ description: 'id of the stop in the registry; the run resumes when the stop is lifted' }),
    reason: z.string(),
  }),
]);
export type ParkedFor = z.infer<typeof parkedFor>;

/** Entries of `degraded`: 32 servers, and one for the rest. */
export const MAX_DEGRADED = 33;
/** A server whose tools a run did not have, and the reason. */
export const runDegradation = z.object({ server: z.string(), reason: z.string() });
export type RunDegradation = z.infer<typeof runDegradation>;

const time = z.int().meta({ description: 'milliseconds since the Unix epoch' });

/** A run as the API shows it. */
export const runRecord = z.object({
  id: z.string(),
  namespace: z.string(),
  task: z.string(),
  revision: z.int().meta({ description: 'revision of the task when the run was submitted' }),
  wasm: z.string().meta({ description: 'sha256 of the module' }),
  pool: z.string(),
  status: z.enum(runStatuses),
  submitted_by: z.string(),
  submitted_at_ms: time,
  started_at_ms: time.nullable().meta({ description: 'start of the latest attempt' }),
  ended_at_ms: time.nullable(),
  attempts: z.int(),
  max_attempts: z.int(),
  node: z.string().nullable(),
  exit: runExit.nullable(),
  cost: runCost.nullable(),
  input_bytes: z.int(),
  input_sha256: z.string(),
  result_bytes: z.int().nullable(),
  traceparent: z
    .string()
    .nullable()
    .optional()
    .meta({ description: 'trace that the run belongs to (W3C Trace Context); null: the run is not traced' }),
  first_submitted_by: z
    .string()
    .nullable()
    .optional()
    .meta({ description: 'for a retry: the user who submitted the first run; otherwise null' }),
  retry_of: z.string().nullable().meta({ description: 'the run that this run retries, with the same task and input' }),
  parked_for: parkedFor
    .nullable()
    .optional()
    .meta({ description: 'what the run waits for; set only while it is parked' }),
  status_reason: z.string().nullable().optional().meta({
    description: 'why the run makes no progress: the server it waits for, or why a node returned it to the queue',
  }),
  degraded: z
    .array(runDegradation)
    .nullable()
    .optional()
    .meta({ description: 'servers whose tools the run did not have, each with the reason; null: it had all' }),
});
export type RunRecord = z.infer<typeof runRecord>;

export const runPage = z.object({
  runs: z.array(runRecord),
  cursor: z.string().nullable().meta({ description: 'cursor of the next page; null: this is the last page' }),
});

export const MAX_INPUT_BYTES = 32 * 1024 * 1024;
export const MAX_RESULT_BYTES = 32 * 1024 * 1024;
/** Longest time that a submission may wait for its result. */
export const MAX_WAIT_S = 300;
