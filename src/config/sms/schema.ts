import { z } from 'zod';
import { recordLimits } from '../../server/records/record-limits.ts';
import { smsAuditTable } from '../audit-schema.ts';
import { egressTable } from '../egress-schema.ts';
import { limitFields } from '../limit-fields.ts';
import { smsNatsTable } from '../nats-schema.ts';
import { describeIssues, strictTable } from '../strict-table.ts';
import { telemetryTable } from '../telemetry-schema.ts';
import { etcdTable } from './etcd.ts';
import { smsLimitSpecs } from './limits.ts';
import { oidcTable } from './oidc.ts';

const text = z.string().min(1);
const { kept_changes, max_bytes, ...limits } = limitFields(smsLimitSpecs);
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
  allow_self: z.boolean().optional(),
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
    kept_changes,
    max_bytes,
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
  limits: strictTable(limits).optional(),
});

export type SmsDocument = z.infer<typeof smsDocument>;

export function checkSmsDocument(file: string, parsed: unknown): { document: SmsDocument } | { complaint: string } {
  const checked = smsDocument.safeParse(parsed);
  if (checked.success) return { document: checked.data };
  return { complaint: describeIssues(file, checked.error.issues, parsed) };
}
