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

const MCP_PREFIX = 'mcp.';

/** Texts, but for what the host itself reads: lists, booleans and tables are written as what they are. */
const configMap = z.record(z.string(), z.json()).superRefine((map, context) => {
  for (const [key, value] of Object.entries(map)) {
    if (typeof value === 'string' || key.startsWith(MCP_PREFIX)) continue;
    context.addIssue({ code: 'invalid_type', expected: 'string', path: [key], input: value });
  }
});

const taskDocument = strictTable({
  name: z.string().min(1).optional(),
  config: configMap.optional(),
  limits: limits.optional(),
  args: z.array(plainText).optional(),
  env: z.record(envName, plainText).optional(),
  backend: z.string().min(1).optional(),
});

export type TaskDocument = z.infer<typeof taskDocument>;

const taskKeys = Object.keys(taskDocument.shape);

/** A file with none of our keys and nothing but strings and keys of MCP is the `config` map itself. */
function isBareConfig(parsed: unknown): boolean {
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return false;
  const entries = Object.entries(parsed);
  return entries.every(
    ([key, value]) => !taskKeys.includes(key) && (typeof value === 'string' || key.startsWith(MCP_PREFIX)),
  );
}

export function checkTaskDocument(file: string, parsed: unknown): { document: TaskDocument } | { complaint: string } {
  const document = isBareConfig(parsed) ? { config: parsed } : parsed;
  const checked = taskDocument.safeParse(document);
  if (checked.success) return { document: checked.data };
  return { complaint: describeIssues(file, checked.error.issues, document) };
}
