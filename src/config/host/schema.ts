import { z } from 'zod';
import { stdioPolicies } from '../../server/records/record.ts';
import { isSecretReference, SECRET_REFERENCE_HELP } from '../../server/secrets/secret.ts';
import { auditTable } from '../audit-schema.ts';
import { egressTable } from '../egress-schema.ts';
import { natsTable } from '../nats-schema.ts';
import { describeIssues, strictTable } from '../strict-table.ts';
import { telemetryTable } from '../telemetry-schema.ts';
import { backendUrlComplaint, headerNameComplaint } from './http.ts';
import { imagePlacements } from './image-placement.ts';
import { type BackendLimitName, backendLimitSpecs } from './limits.ts';
import { nodeTable } from './node-schema.ts';

const BACKEND_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

const nonEmpty = z.string().min(1);
const secretReference = z.string().refine(isSecretReference, SECRET_REFERENCE_HELP);

const openAiBackend = strictTable({
  kind: z.literal('openai'),
  base_url: z.string().superRefine(complainBy(backendUrlComplaint)),
  model: nonEmpty,
  images: z.enum(imagePlacements).optional(),
  api_key: secretReference.optional(),
  timeout_ms: limit('timeout_ms'),
  connect_timeout_ms: limit('connect_timeout_ms'),
  max_retries: limit('max_retries'),
  max_response_bytes: limit('max_response_bytes'),
  headers: z.record(z.string().superRefine(complainBy(headerNameComplaint)), z.string()).optional(),
});

const scriptedBackend = strictTable({ kind: z.literal('scripted'), script: nonEmpty });

const stubBackend = strictTable({ kind: z.literal('stub') });

const backend = z.discriminatedUnion('kind', [openAiBackend, scriptedBackend, stubBackend]);

const backendName = z
  .string()
  .regex(
    BACKEND_NAME,
    'a backend name has up to 64 letters, digits, "_", "." and "-", and starts with a letter or digit',
  );

/** What this node lets records refer to, and how old its copy of the registry may get. */
const mcp = strictTable({
  allow_env: z.array(z.string().min(1)).optional(),
  allow_files: z.array(z.string().startsWith('/', 'must be an absolute path')).optional(),
  max_staleness_ms: z.int().min(1000).optional(),
  first_snapshot_ms: z.int().min(0).max(600_000).optional(),
  stdio: z.enum(stdioPolicies).optional(),
  approval_rules: z.array(z.unknown()).optional(), // looked into where policy is
});

/** The host's config file. A further top-level table is one more entry here and one more step in host-config.ts. */
const hostDocument = strictTable({
  default_backend: nonEmpty.optional(),
  backends: z.record(backendName, backend).optional(),
  mcp: mcp.optional(),
  egress: egressTable.optional(),
  audit: auditTable.optional(),
  journal: strictTable({ key: secretReference.optional() }).optional(),
  node: nodeTable.optional(),
  telemetry: telemetryTable.optional(),
  nats: natsTable.optional(),
});

export type HostDocument = z.infer<typeof hostDocument>;
export type BackendTable = z.infer<typeof backend>;
export type OpenAiBackendTable = z.infer<typeof openAiBackend>;

/** The document, or all that is wrong with it. */
export function checkHostDocument(file: string, parsed: unknown): { document: HostDocument } | { complaint: string } {
  const checked = hostDocument.safeParse(parsed);
  if (checked.success) return { document: checked.data };
  return { complaint: describeIssues(file, checked.error.issues, parsed) };
}

function limit(name: BackendLimitName) {
  return z.int().min(backendLimitSpecs[name].min).max(backendLimitSpecs[name].max).optional();
}

function complainBy(check: (text: string) => string | undefined) {
  return (text: string, context: z.core.$RefinementCtx<string>): void => {
    const complaint = check(text);
    if (complaint !== undefined) context.addIssue({ code: 'custom', message: complaint });
  };
}
