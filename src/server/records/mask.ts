import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { MASK, maskArguments, maskUrl, maskValue } from './mask-value.ts';
import type { McpServerRecord, RecordIssue } from './record.ts';
import { pathText } from './record-schema.ts';

export { MASK, maskValue } from './mask-value.ts';

/** The record as people may see it. */
export function maskRecord(record: McpServerRecord): McpServerRecord {
  const { stdio, http } = record;
  return {
    ...record,
    stdio: stdio === null ? null : { ...stdio, args: maskArguments(stdio.args), env: maskValues(stdio.env) },
    http: http === null ? null : { ...http, url: maskUrl(http.url), headers: maskValues(http.headers) },
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
  /** The stored text whose masked form this is. */
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
    // A map, for "constructor" is a name like any other.
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
