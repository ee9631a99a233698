import { z } from 'zod';
import { limitSpecs } from '../runtime/port/limits.ts';
import { isolations } from '../server/records/task.ts';
import { type CheckedDocument, checkDocument, limitFields, plainName, strictTable } from './document.ts';

const NUL = '\0';
const plainText = z.string().refine((text) => !text.includes(NUL), 'must not contain a NUL character');
const envName = z.string().regex(/^[^=\0]+$/, 'a variable name must not be empty or contain "="');

const limits = strictTable(limitFields(limitSpecs));

const MCP_PREFIX = 'mcp.';

/** Strings, except that `mcp.*` keys, which the host reads, may have any JSON value. */
const configMap = z.record(z.string(), z.json()).superRefine((map, context) => {
  for (const [key, value] of Object.entries(map)) {
    if (typeof value === 'string' || key.startsWith(MCP_PREFIX)) continue;
    context.addIssue({ code: 'invalid_type', expected: 'string', path: [key], input: value });
  }
});

const MAX_CONCURRENCY = 100_000;
const MAX_ATTEMPTS = 1_000;
const MAX_DESCRIPTION_CHARS = 1_000;

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

/** Task of a node: name and module are required. */
const taskRecord = strictTable({ ...shape, name: plainName, wasm: z.string().min(1) });

export type TaskDocument = z.infer<typeof taskDocument>;
export type TaskRecordDocument = z.infer<typeof taskRecord>;

/** For the OpenAPI description. */
export const taskRecordSchema: z.ZodType = taskRecord;

const taskKeys = Object.keys(taskDocument.shape);

/** Whether a document is the `config` map itself: it has no key of a task, and only strings and `mcp.*` keys. */
function isBareConfig(parsed: unknown): boolean {
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return false;
  const entries = Object.entries(parsed);
  return entries.every(
    ([key, value]) => !taskKeys.includes(key) && (typeof value === 'string' || key.startsWith(MCP_PREFIX)),
  );
}

/** Checks a task for a node. Unlike the config of a single run, it has a name and a module. */
export const checkTaskRecord = (name: string, parsed: unknown): CheckedDocument<TaskRecordDocument> =>
  checkDocument(taskRecord, name, parsed);

export function checkTaskDocument(name: string, parsed: unknown): CheckedDocument<TaskDocument> {
  return checkDocument(taskDocument, name, isBareConfig(parsed) ? { config: parsed } : parsed);
}
