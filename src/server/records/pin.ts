import { z } from 'zod';
import { isJsonObject, type JsonObject } from '../../base/json.ts';
import type { Parsed, RecordKind, StoreStamps } from './record-kind.ts';
import { readFields } from './record-schema.ts';

/**
 * The definition of a tool as somebody accepted it. A server's record has its hash, which decides; this is what people are
 * shown beside the one of today.
 */
export interface PinnedDefinition extends StoreStamps {
  /** `SERVER/TOOL`: the id of a server has no slash. */
  readonly pin_id: string;
  readonly sha256: string;
  readonly definition: JsonObject;
  readonly pinned_by: string | null;
}

/** One that is larger is pinned by its hash alone. */
export const MAX_PINNED_DEFINITION_BYTES = 128 * 1024;

export const pinId = (serverId: string, tool: string): string => `${serverId}/${tool}`;

const ms = z.int().min(0).default(0);
const pinSchema = z.object({
  pin_id: z.string(),
  sha256: z.string(),
  definition: z.custom<JsonObject>(isJsonObject),
  pinned_by: z.union([z.string(), z.null()]),
  updated_at_ms: ms,
  mod_revision: ms,
});

export const pinKind: RecordKind<PinnedDefinition> = {
  name: 'pin',
  idField: 'pin_id',
  isId: (text) => text.includes('/'),
  mending: (id) => `pin it again with "spear servers pin ${id.replace('/', ' ')}"`,
  parse: (input): Parsed<PinnedDefinition> => {
    const read = readFields(pinSchema, input);
    if ('issues' in read) return { ok: false, issues: read.issues };
    return { ok: true, record: Object.freeze(read.shape), warnings: [] };
  },
};
