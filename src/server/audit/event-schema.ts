import { z } from 'zod';
import type { JsonObject } from '../../base/json.ts';

/*
 * The events of the audit log, once: `event.ts` infers their types, and scripts/audit-schema.ts writes the JSON Schema in
 * src/generated/audit.schema.json.
 *
 * - Nothing at run time parses with these objects. Other modules import types only, so a process that writes an audit log
 *   does not load this file.
 * - Within a version of the format fields may be added; none is renamed or removed. A field that was added after a
 *   version was released is `addedLater`: this program always writes it, and the schema does not require it.
 * - The schema lets readers ignore unknown fields.
 */

const text = z.string();
const maybeText = text.nullable();
const count = z.int().min(0);
const revision = count.nullable();
const list = z.array(text).readonly();
const digest = text.regex(/^[0-9a-f]{64}$/);
const timestamp = text.regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);

/** Fields that lines of earlier versions may lack. */
export const fieldsAddedLater = new Set<z.ZodType>();

function addedLater<Type extends z.ZodType>(schema: Type): Type {
  const field = schema.meta({ ...schema.meta() });
  fieldsAddedLater.add(field);
  return field;
}

/** A call's arguments: an object without secrets, `sha256:…`, or nothing. */
export type AuditArguments = JsonObject | string | null;

const args = z
  .union([z.record(text, z.unknown()), text.regex(/^sha256:[0-9a-f]{64}$/), z.null()])
  .describe(
    'Redacted arguments or only their structure (an object), their digest (a string), or null.',
  ) as unknown as z.ZodType<AuditArguments>;

export const exclusion = z.object({
  server_id: text,
  tool_name: maybeText,
  reason: text,
  layer: z.enum(['registry', 'profile', 'task', 'session', 'node']),
  detail: text,
});
const exclusions = z.array(exclusion.readonly()).readonly();

/** Identifies a call. `server_id` is null for a tool inside the guest, and for a name that belongs to no server. */
const callIds = { session_id: maybeText, request_id: text, server_id: maybeText, tool_name: text };
/** A call that may also read a resource or get a prompt. */
const call = {
  ...callIds,
  kind: z
    .enum(['resource', 'prompt'])
    .optional()
    .describe('The kind of request if it is not a tool call; tool_name is then the URI or the name.'),
};

/** What an approval is bound to: the canonical arguments and the definition of the tool. */
const approval = { ...call, revision, args_sha256: digest, tool_sha256: digest };

/** A request for an approval that a registry stores. `needed`: number of votes; `decided_by`: names of the voters. */
const registryApproval = {
  approval_id: text,
  approval_namespace: text,
  run: text,
  ordinal: text,
  task_name: maybeText,
  session_id: text,
  server_id: text,
  kind: z.enum(['tool', 'resource', 'prompt']),
  tool_name: text,
  args_sha256: digest,
  tool_sha256: text,
  submitted_by: maybeText.optional(),
  needed: z.int().min(1),
  decided_by: text,
};
const approvalStatus = z.enum(['waiting', 'granted', 'denied', 'used', 'expired', 'withdrawn']);

const elicitation = { ...callIds, mode: z.enum(['form', 'url']) };

/** Who asked a registry for something, and from where; null: no identity, or not over a network. */
const caller = {
  actor: maybeText,
  role: maybeText,
  namespace: addedLater(maybeText),
  peer: maybeText,
  via: z.enum(['http', 'grpc', 'process']),
  method: text,
};
export const auditCaller = z.object(caller);

/** A change of a record; values that may be secret are masked, an update has the fields that changed. */
const object = z.record(text, z.unknown()).nullable() as unknown as z.ZodType<object | null>;
const change = {
  ...caller,
  action: z.enum(['create', 'update', 'delete']),
  revision: count,
  fields: list,
  before: object,
  after: object,
};
/** Changes that are about to be written; the list has the first of them. */
const announced = { ...caller, changes: count };

const applied = {
  epoch: addedLater(
    text.describe(
      'Id of the registry that these revisions belong to; changes after a restore; empty if the registry does not report it. Earlier versions did not write this field.',
    ),
  ),
  revision: count,
  upserted: list,
  deleted: list,
  upserts: count,
  deletes: count,
};

/** What folded events have in common; null: not a field of these events, or not the same in all. */
const folded = {
  of: text,
  server_id: maybeText,
  tool_name: maybeText,
  status: maybeText,
  reason: maybeText,
  peer: maybeText,
  method: maybeText,
};
export const foldedKind = z.object(folded);

/** The process that writes a chain; in its first line and again at the start of every file that it continues in. */
const origin = {
  host: addedLater(text),
  user: addedLater(maybeText),
  uid: addedLater(z.int().nullable()),
  keyed: addedLater(z.boolean()),
  key_id: addedLater(text.regex(/^[0-9a-f]{16}$/).nullable()),
};

/** Whose event it is: of a guest, of a registry, or of the audit log itself; null: not known before it is written. */
type Scope = 'guest' | 'registry' | 'chain' | 'any';

const define =
  (scope: Scope) =>
  <Name extends string, Shape extends z.ZodRawShape>(event: Name, description: string, shape: Shape) => ({
    scope,
    description,
    object: z.object({ event: z.literal(event), ...shape }),
  });
const guest = define('guest');
const registry = define('registry');
const chain = define('chain');

export const auditEvents = [
  guest('guest.started', 'A guest started.', { module: text, module_sha256: addedLater(digest.nullable()) }),
  guest('guest.ended', 'A guest ended; exit_code is the exit code of the guest.', {
    status: z.enum([
      'exit',
      'deadline',
      'trap',
      'interrupted',
      'memory',
      'required_server',
      'module',
      'internal',
      'lost',
      'parked',
      'journal',
      'diverged',
    ]),
    exit_code: z.int().nullable(),
    duration_ms: count,
  }),
  guest(
    'session.created',
    'A session requested tools for the first time: the servers it may use at this registry revision, and why the others are excluded.',
    { session_id: text, revision, servers: list, exclusions },
  ),
  guest('mcp.injected', 'Tools of one server were offered to the model for one send.', {
    session_id: text,
    server_id: text,
    status: z.enum(['ok', 'failed']),
    reason: maybeText,
    tools: count,
    exclusions,
    duration_ms: count,
  }),
  guest('model_call.finished', 'A model request ended, successfully or not. Never contains the messages.', {
    session_id: text,
    backend: text,
    model: maybeText,
    status: z.enum(['ok', 'failed', 'cancelled']),
    reason: maybeText,
    duration_ms: count,
    input_tokens: count.nullable(),
    output_tokens: count.nullable(),
  }),
  guest(
    'tool_call.started',
    'A tool call is about to be sent. For a call that is denied before it is sent, this line directly precedes its tool_call.finished.',
    { ...call, source: z.enum(['native', 'mcp']), args },
  ),
  guest('tool_call.progress', 'The server reported progress of a call; at most one line per call in 10 seconds.', {
    ...callIds,
    source: z.literal('mcp'),
    progress: z.number(),
    total: z.number().nullable(),
  }),
  guest(
    'tool_call.finished',
    'A tool call ended; reason is the error code or the reason of the denial, revision the registry revision that allowed or denied the call.',
    {
      ...call,
      source: z.enum(['native', 'mcp']),
      status: z.enum(['ok', 'denied', 'failed']),
      reason: maybeText,
      duration_ms: count,
      output_bytes: count,
      revision,
    },
  ),
  guest('approval.asked', 'An approval was requested for a call.', { ...approval, reason: text, args }),
  guest('approval.decided', 'The approval decision and who made it.', {
    ...approval,
    status: z.enum(['allowed', 'denied']),
    decision: z.enum(['allow_once', 'allow_session', 'deny', 'timeout', 'cancelled', 'rule']),
    decided_by: text,
    reason: maybeText,
    duration_ms: count,
  }),
  guest(
    'elicitation.asked',
    'A server requested input from the user during a call (elicitation); host is the host of the URL to open.',
    { ...elicitation, host: maybeText },
  ),
  guest(
    'elicitation.answered',
    'The answer to an elicitation request, without its content; decided_by names no user if none was asked, or none answered.',
    {
      ...elicitation,
      action: z.enum(['accept', 'decline', 'cancel']),
      decided_by: text,
      reason: maybeText,
      duration_ms: count,
    },
  ),
  guest(
    'registry.applied',
    'A registry change took effect on this node; upserted and deleted list the first servers, upserts and deletes count all of them.',
    { ...applied },
  ),
  guest(
    'profiles.applied',
    'Registry profiles took effect at the start of a run, or changed; only if the task names a profile.',
    { ...applied },
  ),
  guest(
    'registry.state',
    'The registry rejects this node, is unreachable, its snapshot became stale, or it is available again.',
    { state: z.enum(['ready', 'degraded', 'refused', 'stale']), reason: maybeText },
  ),
  guest('budget.hit', 'A limit stopped a send or a call.', {
    session_id: maybeText,
    server_id: maybeText,
    tool_name: maybeText,
    budget: text,
  }),
  registry('sms.started', 'A registry started to serve.', {
    epoch: text,
    revision: count,
    servers: count,
    grpc: text,
    http: text,
    auth: z.boolean(),
  }),
  registry('sms.ended', 'A registry stopped.', {}),
  registry('sms.write_started', 'Written before a change is stored, if audit.on_failure is refuse.', {
    ...announced,
    servers: list,
  }),
  registry(
    'sms.record_changed',
    'A server of the registry was changed: the actor, and the values before and after, with possible secrets masked. An update has only the changed fields.',
    { ...change, server_id: text },
  ),
  registry('sms.profile_write_started', 'Written before a change is stored, if audit.on_failure is refuse.', {
    ...announced,
    profiles: list,
  }),
  registry(
    'sms.profile_changed',
    'A profile of the registry was changed: the actor, and the values before and after. An update has only the changed fields.',
    { ...change, profile: text },
  ),
  registry('sms.stop_write_started', 'Written before a change is stored, if audit.on_failure is refuse.', {
    ...announced,
    stops: list,
  }),
  registry(
    'sms.stop_changed',
    'A stop was set (create) or lifted (delete): the actor, and the values before and after.',
    { ...change, stop_id: text },
  ),
  registry('sms.task_write_started', 'Written before a change is stored, if audit.on_failure is refuse.', {
    ...announced,
    tasks: list,
  }),
  registry(
    'sms.task_changed',
    'A task of the registry was changed: the actor, and the values before and after. A revision is given by its number, digest and module.',
    { ...change, task_id: text },
  ),
  registry('sms.token_write_started', 'Written before a token change is stored, if audit.on_failure is refuse.', {
    ...announced,
    tokens: list,
  }),
  registry(
    'sms.token_changed',
    'A token of the registry was created, renewed or revoked: the actor, and the values before and after, without the token and its digest.',
    { ...change, token: text },
  ),
  registry('sms.journal_read', 'A user read the timeline of a run.', { ...caller, run: text, run_namespace: text }),
  registry('sms.login', 'A user logged in through an OpenID Connect issuer.', { ...caller, expires_at: text }),
  registry(
    'sms.approval_write_started',
    'Written before a decision about an approval request is stored, if audit.on_failure is refuse.',
    { ...caller, approval_id: text, action: z.enum(['request', 'decide', 'end']) },
  ),
  registry('sms.approval_requested', 'A node requested an approval for a call.', {
    ...caller,
    ...registryApproval,
    reason: text,
    args,
  }),
  registry('sms.approval_decided', 'A user decided an approval request; status is the resulting state.', {
    ...caller,
    ...registryApproval,
    decision: z.enum(['allow_once', 'allow_session', 'deny']),
    status: approvalStatus,
    reason: maybeText,
  }),
  registry('sms.approval_ended', 'An approval request was used, was withdrawn, or expired undecided or unused.', {
    ...caller,
    ...registryApproval,
    status: approvalStatus,
    reason: maybeText,
  }),
  registry('sms.approval_read', 'A user read the full arguments of an approval request.', {
    ...caller,
    ...registryApproval,
  }),
  registry('sms.served', 'The registry answered a request that was not read-only.', { ...caller, code: text }),
  registry(
    'sms.refused',
    'The registry rejected a request: the caller lacks the permission (denied), or the request failed (failed).',
    { ...caller, status: z.enum(['denied', 'failed']), code: text, reason: text },
  ),
  registry('sms.reloaded', 'The registry read its server directory.', {
    ...caller,
    status: z.enum(['applied', 'dry_run', 'refused', 'failed']),
    reason: maybeText,
    changes: count,
    problems: count,
  }),
  define('any')(
    'events.folded',
    'Number of events of one kind that were not written because the same run emitted too many of them.',
    { ...folded, count: z.int().min(1), first_ts: timestamp, last_ts: timestamp },
  ),
] as const;

/** Events of the audit log itself. */
export const chainEvents = [
  chain('chain.started', 'First line of a chain: a process started to write.', { pid: count, spear: text, ...origin }),
  chain('chain.rotated', 'The chain continues in a new file.', {
    pid: addedLater(z.int().min(1)),
    spear: addedLater(text),
    ...origin,
  }),
  chain(
    'chain.repaired',
    'The file ended in an incomplete line, which was blanked out; torn is the beginning of that line.',
    { torn_bytes: count, torn_sha256: digest, torn: text },
  ),
  chain('chain.lost', 'Number of lines before this one that could not be written.', {
    lines: z.int().min(1),
    reason: text,
  }),
  chain('chain.ended', 'Last line of a chain whose process shut down cleanly.', {}),
] as const;

/** The fields of every line but its version, `AUDIT_VERSION`. */
export function lineShape(scope: Scope, event: string) {
  const of = { guest: [maybeText, text], registry: [z.null(), z.null()], chain: [z.null(), z.null()] } as const;
  const [task, instance] = scope === 'any' ? [maybeText, maybeText] : of[scope];
  return {
    chain: text.regex(/^[0-9a-f]{16}$/),
    seq: count,
    ts: timestamp,
    event: z.literal(event),
    task,
    instance,
    ...(scope === 'guest' || scope === 'any' ? { trace_id: text.regex(/^[0-9a-f]{32}$/).optional() } : {}),
    prev: digest,
    hash: digest,
  };
}
