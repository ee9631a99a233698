import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { parseRecord } from '../../../src/server/records/server.ts';

/** A record made the only way records are made; throws when the sample is not valid. */
export function sampleRecord(serverId: string, fields: Record<string, unknown> = {}): McpServerRecord {
  const base = { server_id: serverId, transport: 'stdio', stdio: { command: 'server' }, allowed_tools: ['*'] };
  const parsed = parseRecord({ ...base, ...fields }, { strict: true });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.issues));
  return parsed.record;
}
