import { z } from 'zod';
import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { type Approval, approvalDecisions, approvalStatuses, isApprovalId } from './approval.ts';
import type { Parsed, RecordKind } from './record-kind.ts';
import { readFields } from './record-schema.ts';

const json = z.custom<JsonValue>((value) => value !== undefined);
/** As it is: an argument may be called `__proto__`. */
const jsonObject = z.custom<JsonObject>(isJsonObject);
const ms = z.int().min(0);
const text = z.string();
const orNull = <T extends z.ZodType>(schema: T) => z.union([schema, z.null()]);

const EARLIER_GRANT_MS = 600_000;

const approvalSchema = z.object({
  approval_id: text.refine(isApprovalId, 'is not an approval id'),
  namespace: text,
  epoch: text,
  status: z.enum(approvalStatuses),
  run: text,
  ordinal: text,
  task: orNull(text),
  session: text,
  server_id: text,
  kind: z.enum(['tool', 'resource', 'prompt']),
  tool_name: text,
  definition_sha256: text,
  policy: text,
  purpose: text,
  call_id: text,
  node_id: text,
  requested_by: orNull(text),
  // Not in requests of an earlier version.
  submitted_by: orNull(text).default(null),
  submitter: text.optional(),
  cause: z.object({ code: text, text }),
  arguments: jsonObject,
  arguments_sha256: text,
  salt: text,
  definition: jsonObject,
  changes: z.array(z.object({ path: text, before: json.optional(), after: json.optional() })),
  created_at_ms: ms,
  expires_at_ms: ms,
  // Of a request that an earlier version took down.
  grant_ms: ms.default(EARLIER_GRANT_MS),
  needed: z.int().min(1),
  rule: orNull(text),
  votes: z.array(
    z.object({
      by: orNull(text),
      person: text.optional(),
      decision: z.enum(approvalDecisions),
      reason: orNull(text),
      at_ms: ms,
    }),
  ),
  decision: orNull(z.enum(approvalDecisions)),
  reason: orNull(text),
  decided_at_ms: orNull(ms),
  claim: orNull(text),
  updated_at_ms: ms.default(0),
  mod_revision: ms.default(0),
});

/** Written by the registry alone: it is read again, and never taken from anybody. */
export const approvalKind: RecordKind<Approval> = {
  name: 'approval',
  idField: 'approval_id',
  isId: isApprovalId,
  mending: () => 'its call requests a new approval',
  parse: (input): Parsed<Approval> => {
    const read = readFields(approvalSchema, input);
    if ('issues' in read) return { ok: false, issues: read.issues };
    return { ok: true, record: Object.freeze(read.shape), warnings: [] };
  },
};
