import { isDeepStrictEqual } from 'node:util';
import { canonicalJson, type JsonValue } from '../../base/json.ts';
import type { McpServerRecord } from './record.ts';
import type { StoreStamps } from './record-kind.ts';

/** Everything of a record except what the store itself writes, as text. */
export function contentKey(record: StoreStamps): string {
  return canonicalJson(contentOf(record) as unknown as JsonValue);
}

/** What a connection is made from: when it changes, an open connection must be replaced. */
export function connectionKey(record: McpServerRecord): string {
  const { transport, stdio, http, protocol, sandbox, client_features } = record;
  return canonicalJson({ transport, stdio, http, protocol, sandbox, client_features } as unknown as JsonValue);
}

/** Looks at the values themselves: two texts for every change of a registry are more garbage than the change. */
export function sameContent<R extends StoreStamps>(a: R, b: R): boolean {
  return a === b || isDeepStrictEqual(contentOf(a), contentOf(b));
}

export function sameConnection(a: McpServerRecord, b: McpServerRecord): boolean {
  return a === b || connectionKey(a) === connectionKey(b);
}

function contentOf({ updated_at_ms: _updated, mod_revision: _revision, ...content }: StoreStamps) {
  return content;
}
