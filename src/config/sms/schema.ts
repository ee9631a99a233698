import { z } from 'zod';
import { recordLimits } from '../../protocol/record-limits.ts';
import { smsAuditTable } from '../audit-schema.ts';
import { egressTable } from '../egress-schema.ts';
import { smsNatsTable } from '../nats-schema.ts';
import { describeIssues, strictTable } from '../strict-table.ts';
import { telemetryTable } from '../telemetry-schema.ts';
import { etcdTable } from './etcd.ts';
import { type SmsLimitName, smsLimitSpecs } from './limits.ts';
import { oidcTable } from './oidc.ts';

const text = z.string().min(1);
const names = z.array(text);

const MAX_APPROVER_RULES = 256;
const MAX_NEEDED_APPROVERS = 16;
const patterns = z.array(text.max(recordLimits.patternChars)).max(recordLimits.patterns).optional();

/** Who decides about which calls. */
const approverRule = strictTable({
  name: text.max(128).optional(),
  namespaces: patterns,
  servers: patterns,
  tools: patterns,
  approvers: patterns,
  needed: z.int().min(1).max(MAX_NEEDED_APPROVERS).optional(),
});

/** The registry's config file. */
const smsDocument = strictTable({
  grpc: strictTable({ listen: text.optional() }).optional(),
  http: strictTable({
    listen: text.optional(),
    allowed_hosts: names.optional(),
    allowed_origins: names.optional(),
  }).optional(),
  store: strictTable({
    file: text.optional(),
    url: text.optional(),
    etcd: etcdTable.optional(),
    kept_changes: limit('kept_changes'),
    max_bytes: limit('max_bytes'),
  }).optional(),
  mcp: strictTable({
    registry_dir: text.optional(),
    strict: z.boolean().optional(),
    allow_mass_removal: z.boolean().optional(),
    allow_server_test: z.boolean().optional(),
  }).optional(),
  tasks: strictTable({ dir: text.optional(), blob_dir: text.optional() }).optional(),
  runs: strictTable({ queue: text.optional() }).optional(),
  nats: smsNatsTable.optional(),
  approvals: strictTable({ rules: z.array(approverRule).max(MAX_APPROVER_RULES).optional() }).optional(),
  egress: egressTable.optional(),
  audit: smsAuditTable.optional(),
  telemetry: telemetryTable.optional(),
  tls: strictTable({ cert: text.optional(), key: text.optional() }).optional(),
  auth: strictTable({
    admin_token_file: text.optional(),
    node_token_file: text.optional(),
    insecure_no_auth: z.boolean().optional(),
    allow_plaintext_beyond_loopback: z.boolean().optional(),
  }).optional(),
  oidc: oidcTable.optional(),
  limits: strictTable({
    heartbeat_ms: limit('heartbeat_ms'),
    watcher_queue: limit('watcher_queue'),
    max_watchers: limit('max_watchers'),
    node_expiry_ms: limit('node_expiry_ms'),
    max_nodes: limit('max_nodes'),
    max_connections: limit('max_connections'),
    max_connections_per_peer: limit('max_connections_per_peer'),
    idle_connection_ms: limit('idle_connection_ms'),
    max_calls: limit('max_calls'),
    max_calls_per_peer: limit('max_calls_per_peer'),
    max_calls_per_connection: limit('max_calls_per_connection'),
    max_anonymous_calls: limit('max_anonymous_calls'),
    max_anonymous_calls_per_peer: limit('max_anonymous_calls_per_peer'),
    anonymous_calls_per_second: limit('anonymous_calls_per_second'),
    connections_per_second: limit('connections_per_second'),
    max_answer_bytes: limit('max_answer_bytes'),
    max_answer_bytes_per_peer: limit('max_answer_bytes_per_peer'),
    slow_reader_ms: limit('slow_reader_ms'),
    approval_wait_ms: limit('approval_wait_ms'),
    approval_grant_ms: limit('approval_grant_ms'),
    approval_kept_grant_ms: limit('approval_kept_grant_ms'),
    approval_keep_ms: limit('approval_keep_ms'),
    max_approvals: limit('max_approvals'),
    max_waiting_approvals: limit('max_waiting_approvals'),
    max_tasks: limit('max_tasks'),
    kept_task_revisions: limit('kept_task_revisions'),
    removed_task_keep_ms: limit('removed_task_keep_ms'),
    max_blob_bytes: limit('max_blob_bytes'),
    unused_blob_keep_ms: limit('unused_blob_keep_ms'),
    max_queued: limit('max_queued'),
    shutdown_ms: limit('shutdown_ms'),
  }).optional(),
});

export type SmsDocument = z.infer<typeof smsDocument>;

export function checkSmsDocument(file: string, parsed: unknown): { document: SmsDocument } | { complaint: string } {
  const checked = smsDocument.safeParse(parsed);
  if (checked.success) return { document: checked.data };
  return { complaint: describeIssues(file, checked.error.issues, parsed) };
}

function limit(name: SmsLimitName) {
  return z.int().min(smsLimitSpecs[name].min).max(smsLimitSpecs[name].max).optional();
}
