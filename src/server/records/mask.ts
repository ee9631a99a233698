import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { MASK, maskArguments, maskUrl, maskValue } from './credentials.ts';
import { pathText } from './fields.ts';
import type { RecordIssue } from './record-kind.ts';
import type { McpServerRecord } from './server.ts';

/** The record with literal secrets masked, for display. */
export function maskRecord(record: McpServerRecord): McpServerRecord {
  const { stdio, http } = record;
  return {
    ...record,
    stdio: stdio === null ? null : { ...stdio, args: maskArguments(stdio.args), env: maskValues(stdio.env) },
    http: http === null ? null : { ...http, url: maskUrl(http.url), headers: maskValues(http.headers) },
  };
}

/**
 * Replaces masks by the stored values that they hide. A mask without a stored value is an issue: a mask must never be stored
 * as a value.
 */
export function unmask(
  input: JsonObject,
  stored: McpServerRecord | null,
): { readonly input: JsonObject; readonly issues: readonly RecordIssue[] } {
  const issues: RecordIssue[] = [];
  /** Returns the stored text if `value` is its masked form. */
  const restore = (path: readonly PropertyKey[], value: JsonValue, original?: string, shown?: string): JsonValue => {
    if (typeof value !== 'string' || !value.includes(MASK)) return value;
    if (original !== undefined && shown === value) return original;
    issues.push({
      path: pathText(path),
      message: `contains ${MASK}, which stands for the stored value, but no value is stored here`,
    });
    return value;
  };
  const restoreAll = (path: readonly string[], values: JsonObject, storedValue: (name: string) => string | undefined) =>
    Object.fromEntries(
      Object.entries(values).map(([name, value]) => {
        const original = storedValue(name);
        const shown = original === undefined ? undefined : maskValue(original);
        return [name, restore([...path, name], value, original, shown)];
      }),
    );

  const result = { ...input };
  const { stdio, http } = input;
  if (isJsonObject(stdio)) {
    const { args = [] } = stored?.stdio ?? {};
    // A Map: a variable may be called "constructor".
    const env = new Map(Object.entries(stored?.stdio?.env ?? {}));
    const shown = maskArguments(args);
    result.stdio = {
      ...stdio,
      ...(isJsonObject(stdio.env) ? { env: restoreAll(['stdio', 'env'], stdio.env, (name) => env.get(name)) } : {}),
      ...(Array.isArray(stdio.args)
        ? { args: stdio.args.map((value, at) => restore(['stdio', 'args', at], value, args[at], shown[at])) }
        : {}),
    };
  }
  if (isJsonObject(http)) {
    const headers = new Map(
      Object.entries(stored?.http?.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]),
    );
    const lookup = (name: string) => headers.get(name.toLowerCase());
    const url = stored?.http?.url;
    result.http = {
      ...http,
      ...(isJsonObject(http.headers) ? { headers: restoreAll(['http', 'headers'], http.headers, lookup) } : {}),
      ...(typeof http.url === 'string'
        ? { url: restore(['http', 'url'], http.url, url, url === undefined ? undefined : maskUrl(url)) }
        : {}),
    };
  }
  return { input: result, issues };
}

function maskValues(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, maskValue(value)]));
}
