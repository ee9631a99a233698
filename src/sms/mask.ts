import { isJsonObject, type JsonObject } from '../protocol/json.ts';
import type { McpServerRecord, RecordIssue } from '../protocol/record.ts';
import { pathText } from '../protocol/record-schema.ts';

/** Stands for literal text of an env or header value. */
export const MASK = '********';

const reference = /(\$\{ENV:[^}]*\})/;
const authScheme = /^(?:bearer|basic|token|digest) +$/i;

/** References stay readable, literal text does not: it may be a credential. */
export function maskValue(value: string): string {
  const parts = value.split(reference);
  return parts
    .map((part, index) => {
      const isReference = index % 2 === 1;
      const isScheme = authScheme.test(part) && index + 1 < parts.length;
      return part === '' || isReference || isScheme ? part : MASK;
    })
    .join('');
}

/** The record as people may see it. */
export function maskRecord(record: McpServerRecord): McpServerRecord {
  const { stdio, http } = record;
  return {
    ...record,
    stdio: stdio === null ? null : { ...stdio, env: maskValues(stdio.env) },
    http: http === null ? null : { ...http, headers: maskValues(http.headers) },
  };
}

/**
 * Puts stored values back in the place of the masks that stand for them. A mask that stands for nothing is an issue:
 * it must never be stored as if it were a value.
 */
export function unmask(
  input: JsonObject,
  stored: McpServerRecord | null,
): { readonly input: JsonObject; readonly issues: readonly RecordIssue[] } {
  const issues: RecordIssue[] = [];
  const result = { ...input };
  const { stdio, http } = input;
  if (isJsonObject(stdio) && isJsonObject(stdio.env)) {
    const env = stored?.stdio?.env ?? {};
    result.stdio = { ...stdio, env: unmaskValues(stdio.env, ['stdio', 'env'], (name) => env[name], issues) };
  }
  if (isJsonObject(http) && isJsonObject(http.headers)) {
    const headers = new Map(
      Object.entries(stored?.http?.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]),
    );
    const lookup = (name: string) => headers.get(name.toLowerCase());
    result.http = { ...http, headers: unmaskValues(http.headers, ['http', 'headers'], lookup, issues) };
  }
  return { input: result, issues };
}

function maskValues(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, maskValue(value)]));
}

function unmaskValues(
  values: JsonObject,
  path: readonly string[],
  storedValue: (name: string) => string | undefined,
  issues: RecordIssue[],
): JsonObject {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      if (typeof value !== 'string' || !value.includes(MASK)) return [name, value];
      const stored = storedValue(name);
      if (stored !== undefined && maskValue(stored) === value) return [name, stored];
      issues.push({
        path: pathText([...path, name]),
        message: `holds ${MASK}, which stands for a stored value, and none is stored that it could stand for`,
      });
      return [name, value];
    }),
  );
}
