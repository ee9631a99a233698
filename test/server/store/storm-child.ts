import { openSqliteStore } from '../../../src/server/store/sqlite-store.ts';
import { sampleRecord } from '../records/server-samples.ts';

// Writes as fast as it can until it is killed, and says after each write what the store promised.

const [path = '', round = ''] = process.argv.slice(2);
const store = openSqliteStore(path, { keptChanges: 50 });

for (let i = 0; ; i++) {
  const id = `s${i % 20}`;
  const remove = i % 7 === 6 && (await store.servers.get(id)) !== null;
  const revision = remove
    ? await store.servers.remove(id)
    : (await store.servers.upsert(sampleRecord(id, { display_name: `${round}.${i}` }))).revision;
  process.stdout.write(`${JSON.stringify({ revision, id, name: remove ? null : `${round}.${i}` })}\n`);
}
