import { canonicalJson, type JsonValue } from '../base/json.ts';
import type { McpServerRecord } from './record.ts';

/** Everything of a record except what the store itself writes. */
export function contentKey(record: McpServerRecord): string {
  const { updated_at_ms: _updated, mod_revision: _revision, ...content } = record;
  return canonicalJson(content as unknown as JsonValue);
}

/** What a connection is made from: when it changes, an open connection must be replaced. */
export function connectionKey(record: McpServerRecord): string {
  const { transport, stdio, http, protocol, sandbox } = record;
  return canonicalJson({ transport, stdio, http, protocol, sandbox } as unknown as JsonValue);
}

export function sameContent(a: McpServerRecord, b: McpServerRecord): boolean {
  return a === b || contentKey(a) === contentKey(b);
}

export function sameConnection(a: McpServerRecord, b: McpServerRecord): boolean {
  return a === b || connectionKey(a) === connectionKey(b);
}
