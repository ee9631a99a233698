import { z } from 'zod';
import { isJsonObject, type JsonObject } from '../../base/json.ts';
import { orNull, parserOf, stamp } from './fields.ts';
import type { RecordKind, StoreStamps } from './record-kind.ts';

/**
 * The definition of a tool as a user accepted it. The server's record holds its hash, which decides; this copy is shown beside
 * the current definition.
 */
export interface PinnedDefinition extends StoreStamps {
  /** `SERVER/TOOL`: a server id has no slash. */
  readonly pin_id: string;
  readonly sha256: string;
  readonly definition: JsonObject;
  readonly pinned_by: string | null;
}

/** A larger definition is pinned by its hash alone. */
export const MAX_PINNED_DEFINITION_BYTES = 128 * 1024;

export const pinId = (serverId: string, tool: string): string => `${serverId}/${tool}`;

const pinSchema = z.object({
  pin_id: z.string(),
  sha256: z.string(),
  definition: z.custom<JsonObject>(isJsonObject),
  pinned_by: orNull(z.string()),
  updated_at_ms: stamp,
  mod_revision: stamp,
});

export const pinKind: RecordKind<PinnedDefinition> = {
  name: 'pin',
  idField: 'pin_id',
  isId: (text) => text.includes('/'),
  repair: (id) => `pin it again with "spear servers pin ${id.replace('/', ' ')}"`,
  parse: parserOf(pinSchema, undefined, Object.freeze),
};
