import { DatabaseSync } from 'node:sqlite';
import { canonicalJson, type JsonValue } from '../../src/base/json.ts';
import { openSqliteStore } from '../../src/server/store/sqlite-store.ts';
import { sampleRecord } from '../server/records/server-samples.ts';

/**
 * Makes a registry file with many records, server-00000 and so on, in one transaction: through the store each of them
 * would wait for the disk. Precondition: there is no file at `path`.
 */
export async function makeLargeRegistry(path: string, count: number): Promise<void> {
  await openSqliteStore(path).close();
  const db = new DatabaseSync(path);
  db.exec('BEGIN');
  const insert = db.prepare("INSERT INTO records VALUES ('server', ?, ?, ?)");
  for (let index = 0; index < count; index++) {
    const id = largeRegistryId(index);
    const record = sampleRecord(id, {
      display_name: `Server number ${index}`,
      stdio: { command: 'npx', args: ['-y', `@example/mcp-server-${index}`], env: { TOKEN: `\${ENV:MCP_TOKEN}` } },
      allowed_tools: ['read_*', 'list_*', 'search_*'],
      tags: ['team-a', 'production'],
      updated_at_ms: 1,
      mod_revision: index + 1,
    });
    insert.run(id, 'api', canonicalJson(record as unknown as JsonValue));
  }
  db.prepare("UPDATE kinds SET revision = ?, compacted = ? WHERE kind = 'server'").run(count, count);
  db.exec('COMMIT');
  db.close();
}

export function largeRegistryId(index: number): string {
  return `server-${String(index).padStart(5, '0')}`;
}
