import { z } from 'zod';
import { limitNames, limitSpecs } from '../../protocol/limits.ts';
import { describeIssues, strictTable } from '../strict-table.ts';

const NUL = '\0';
const plainText = z.string().refine((text) => !text.includes(NUL), 'must not contain a NUL character');
const envName = z.string().regex(/^[^=\0]+$/, 'the name of a variable must not be empty or contain "="');

const limits = strictTable(
  Object.fromEntries(
    limitNames.map((name) => [name, z.int().min(limitSpecs[name].min).max(limitSpecs[name].max).optional()]),
  ),
);

const taskDocument = strictTable({
  name: z.string().min(1).optional(),
  config: z.record(z.string(), z.string()).optional(),
  limits: limits.optional(),
  args: z.array(plainText).optional(),
  env: z.record(envName, plainText).optional(),
  backend: z.string().min(1).optional(),
});

export type TaskDocument = z.infer<typeof taskDocument>;

const taskKeys = Object.keys(taskDocument.shape);

/** A file with none of our keys and nothing but strings is the `config` map itself. */
function isBareConfig(parsed: unknown): boolean {
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return false;
  const entries = Object.entries(parsed);
  return entries.every(([key, value]) => typeof value === 'string' && !taskKeys.includes(key));
}

export function checkTaskDocument(file: string, parsed: unknown): { document: TaskDocument } | { complaint: string } {
  const document = isBareConfig(parsed) ? { config: parsed } : parsed;
  const checked = taskDocument.safeParse(document);
  if (checked.success) return { document: checked.data };
  return { complaint: describeIssues(file, checked.error.issues, document) };
}
