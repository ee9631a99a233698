import { z } from 'zod';
import { isInheritedName } from '../../base/inherited-name.ts';
import { limitSpecs } from '../../runtime/port/limits.ts';
import { isolations } from '../../server/records/task.ts';
import { limitFields } from '../limit-fields.ts';
import { describeIssues, strictTable } from '../strict-table.ts';

const NUL = '\0';
const plainText = z.string().refine((text) => !text.includes(NUL), 'must not contain a NUL character');
const envName = z.string().regex(/^[^=\0]+$/, 'a variable name must not be empty or contain "="');

const limits = strictTable(limitFields(limitSpecs));

const MCP_PREFIX = 'mcp.';

/** Texts, but for what the host itself reads: lists, booleans and tables are written as what they are. */
const configMap = z.record(z.string(), z.json()).superRefine((map, context) => {
  for (const [key, value] of Object.entries(map)) {
    if (typeof value === 'string' || key.startsWith(MCP_PREFIX)) continue;
    context.addIssue({ code: 'invalid_type', expected: 'string', path: [key], input: value });
  }
});

const MAX_CONCURRENCY = 100_000;
const MAX_ATTEMPTS = 1_000;
const MAX_DESCRIPTION_CHARS = 1_000;

/** Of namespaces, tasks and pools: part of paths, subjects and file names. */
export const plainName = z
  .string()
  .regex(
    /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/,
    'expected 1 to 63 characters of a-z, 0-9 and -, not starting or ending with -',
  )
  .refine((name) => !isInheritedName(name), 'must not be a name that every JavaScript object has');

const tokens = z.int().min(1);

const shape = {
  name: z.string().min(1).optional(),
  config: configMap.optional(),
  limits: limits.optional(),
  args: z.array(plainText).optional(),
  env: z.record(envName, plainText).optional(),
  backend: z.string().min(1).optional(),
  namespace: plainName.optional(),
  wasm: z.string().min(1).optional(),
  description: z.string().max(MAX_DESCRIPTION_CHARS).optional(),
  pool: plainName.optional(),
  isolation: z.enum(isolations).optional(),
  concurrency: z.int().min(1).max(MAX_CONCURRENCY).optional(),
  retry: strictTable({ max_attempts: z.int().min(1).max(MAX_ATTEMPTS).optional() }).optional(),
  budgets: strictTable({ tokens_per_run: tokens.optional(), tokens_per_day: tokens.optional() }).optional(),
};

const taskDocument = strictTable(shape);

/** What a node can run: it says what it is called and which module it is. */
const taskRecord = strictTable({ ...shape, name: plainName, wasm: z.string().min(1) });

export type TaskDocument = z.infer<typeof taskDocument>;
export type TaskRecordDocument = z.infer<typeof taskRecord>;

/** For the description of the API. */
export const taskRecordSchema: z.ZodType = taskRecord;

const taskKeys = Object.keys(taskDocument.shape);

/** A file with none of our keys and nothing but strings and keys of MCP is the `config` map itself. */
function isBareConfig(parsed: unknown): boolean {
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return false;
  const entries = Object.entries(parsed);
  return entries.every(
    ([key, value]) => !taskKeys.includes(key) && (typeof value === 'string' || key.startsWith(MCP_PREFIX)),
  );
}

/** A task for a node; unlike the config of a single run it has a name and a module. */
export function checkTaskRecord(
  file: string,
  parsed: unknown,
): { document: TaskRecordDocument } | { complaint: string } {
  const checked = taskRecord.safeParse(parsed);
  if (checked.success) return { document: checked.data };
  return { complaint: describeIssues(file, checked.error.issues, parsed) };
}

export function checkTaskDocument(file: string, parsed: unknown): { document: TaskDocument } | { complaint: string } {
  const document = isBareConfig(parsed) ? { config: parsed } : parsed;
  const checked = taskDocument.safeParse(document);
  if (checked.success) return { document: checked.data };
  return { complaint: describeIssues(file, checked.error.issues, document) };
}
