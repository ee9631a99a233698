import { isServerId, type McpServerRecord } from './record.ts';
import type { RecordKind } from './record-kind.ts';
import { parseRecord } from './record-parse.ts';

export const serverKind: RecordKind<McpServerRecord> = {
  name: 'server',
  idField: 'server_id',
  isId: isServerId,
  parse: parseRecord,
  mending: (id) => `apply it again with "spear servers apply FILE", or remove it with "spear servers rm ${id}"`,
};
