import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { restoreSqliteStore } from '../../../src/server/store/sqlite-backup.ts';
import { openSqliteStore } from '../../../src/server/store/sqlite-store.ts';
import { sampleProfile } from '../records/profile-samples.ts';
import { sampleRecord } from '../records/server-samples.ts';
import { describeStore } from './contract.ts';

let directory = '';
let files = 0;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'spear-store-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const newPath = () => join(directory, `registry-${files++}.db`);

describeStore('SQLite', async (options) => {
  const database = openSqliteStore(newPath(), options);
  return { store: database.servers, close: () => database.close() };
});

describe('a registry file', () => {
  it('holds everything for the next start, including the change log', async () => {
    const path = newPath();
    const first = openSqliteStore(path, { keptChanges: 2, now: () => 42 });
    await first.servers.upsert(sampleRecord('a'));
    await first.servers.upsert(sampleRecord('b'), { origin: 'directory:b.toml' });
    const third = await first.servers.upsert(sampleRecord('c'));
    const last = await first.servers.remove('a');
    const listing = await first.servers.list();
    await first.close();

    const second = openSqliteStore(path, { keptChanges: 2 });
    expect(await second.servers.list()).toEqual(listing);
    expect(await second.servers.origins()).toEqual(
      new Map([
        ['b', 'directory:b.toml'],
        ['c', 'api'],
      ]),
    );
    const signal = new AbortController().signal;
    const watch = second.servers.watch(third.revision, signal)[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ revision: last, deletes: ['a'] });
    await expect(second.servers.watch(1, signal)[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: 'compacted',
    });
    expect((await second.servers.upsert(sampleRecord('a'))).revision).toBeGreaterThan(last);
    await second.close();
  });

  it('is created with its directory, readable by its owner alone', async () => {
    const path = join(directory, 'new', 'deep', 'registry.db');
    const store = openSqliteStore(path);
    await store.servers.upsert(sampleRecord('a'));
    for (const name of readdirSync(join(directory, 'new', 'deep'))) {
      expect(statSync(join(directory, 'new', 'deep', name)).mode & 0o077).toBe(0);
    }
    expect(statSync(join(directory, 'new', 'deep')).mode & 0o077).toBe(0);
    await store.close();
  });

  it('does not grow with the number of changes', async () => {
    const path = newPath();
    const store = openSqliteStore(path, { keptChanges: 3 });
    for (let i = 0; i < 20; i++) await store.servers.upsert(sampleRecord('a', { display_name: `${i}` }));
    await store.close();
    const db = new DatabaseSync(path);
    expect(db.prepare('SELECT revision FROM changes').all()).toEqual([
      { revision: 18 },
      { revision: 19 },
      { revision: 20 },
    ]);
    db.close();
    // A smaller number takes effect with the next change.
    const smaller = openSqliteStore(path, { keptChanges: 1 });
    await smaller.servers.upsert(sampleRecord('b'));
    const watch = smaller.servers.watch(19, new AbortController().signal)[Symbol.asyncIterator]();
    await expect(watch.next()).rejects.toMatchObject({ code: 'compacted' });
    await smaller.close();
  });

  it('has a write-ahead log', async () => {
    const path = newPath();
    const store = openSqliteStore(path);
    await store.close();
    const db = new DatabaseSync(path);
    expect(db.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' });
    db.close();
  });

  it('belongs to one process at a time', async () => {
    const path = newPath();
    const store = openSqliteStore(path);
    const script = `import(process.argv[1]).then(({ openSqliteStore }) => openSqliteStore(process.argv[2])).then(
      () => console.log('opened'), (error) => console.log(error.message))`;
    const module = fileURLToPath(new URL('../../../src/server/store/sqlite-store.ts', import.meta.url));
    const child = spawn(process.execPath, ['-e', script, module, path], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = await once(createInterface(child.stdout), 'line');
    expect(line).toBe(`${path} is in use by another process`);
    await store.close();
  });

  it('of another program or a later version is refused and not changed', () => {
    const foreign = newPath();
    const other = new DatabaseSync(foreign);
    other.exec('CREATE TABLE t (x)');
    other.close();
    expect(() => openSqliteStore(foreign)).toThrow(`${foreign} is not a registry file`);

    const text = newPath();
    writeFileSync(text, 'this is not a database, and long enough to be looked at as one'.repeat(20));
    expect(() => openSqliteStore(text)).toThrow(`cannot open ${text}: file is not a database`);

    const later = newPath();
    openSqliteStore(later).close();
    const db = new DatabaseSync(later);
    db.exec('PRAGMA user_version = 99');
    db.close();
    expect(() => openSqliteStore(later)).toThrow(`${later} has format 99; this version reads formats 1 to 2`);
  });

  it('of the previous format is migrated once, with all records [store.format]', async () => {
    const path = newPath();
    const record = sampleRecord('a', { tags: ['x'], updated_at_ms: 5, mod_revision: 7 });
    makeFormat1(path, record);
    const store = openSqliteStore(path);
    expect(await store.servers.list()).toEqual({ epoch: 'old', revision: 9, records: [record] });
    expect(await store.servers.origins()).toEqual(new Map([['a', 'directory:a.toml']]));
    const watch = store.servers.watch(8, new AbortController().signal)[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ prevRevision: 8, revision: 9, deletes: ['b'], upserts: [] });
    await expect(
      store.servers.watch(5, new AbortController().signal)[Symbol.asyncIterator]().next(),
    ).rejects.toMatchObject({
      code: 'compacted',
    });
    expect(await store.profiles.revision()).toBe(0);
    await store.servers.upsert(sampleRecord('c'));
    await store.profiles.upsert(sampleProfile('p'));
    await store.close();
    const again = openSqliteStore(path);
    expect((await again.servers.list()).records.map(({ server_id }) => server_id)).toEqual(['a', 'c']);
    expect(await again.profiles.list()).toMatchObject({ epoch: 'old', revision: 1, records: [{ name: 'p' }] });
    await again.close();
  });

  it('of the previous format can be restored from a backup [store.format]', async () => {
    const [backup, path] = [newPath(), newPath()];
    makeFormat1(backup, sampleRecord('a', { mod_revision: 7 }));
    await restoreSqliteStore(backup, path);
    const store = openSqliteStore(path);
    const { epoch, revision, records } = await store.servers.list();
    expect([epoch === 'old', revision > 1_000_000, records.map(({ server_id }) => server_id)]).toEqual([
      false,
      true,
      ['a'],
    ]);
    await store.close();
  });

  it('that cannot be migrated is not changed [store.format]', () => {
    const path = newPath();
    makeFormat1(path, sampleRecord('a'));
    const db = new DatabaseSync(path);
    db.exec('CREATE TABLE records (x)');
    db.close();
    expect(() => openSqliteStore(path)).toThrow(
      `${path} has format 1 and cannot be migrated to format 2; nothing was changed`,
    );
    const left = new DatabaseSync(path);
    expect(left.prepare('SELECT server_id FROM servers').all()).toEqual([{ server_id: 'a' }]);
    left.close();
  });

  it('separates the kinds of records: each has its own revisions, log and watchers [sms.kinds]', async () => {
    const store = openSqliteStore(newPath());
    const signal = new AbortController().signal;
    const [servers, profiles] = [store.servers.watch(0, signal), store.profiles.watch(0, signal)].map((watch) =>
      watch[Symbol.asyncIterator](),
    );
    await store.profiles.upsert(sampleProfile('p'));
    await store.profiles.upsert(sampleProfile('q'));
    expect([await store.servers.revision(), await store.profiles.revision()]).toEqual([0, 2]);
    await store.servers.upsert(sampleRecord('p'));
    expect((await servers?.next())?.value).toMatchObject({
      prevRevision: 0,
      revision: 1,
      upserts: [{ server_id: 'p' }],
    });
    expect((await profiles?.next())?.value).toMatchObject({ prevRevision: 0, revision: 1, upserts: [{ name: 'p' }] });
    expect((await profiles?.next())?.value).toMatchObject({ prevRevision: 1, revision: 2, upserts: [{ name: 'q' }] });
    await store.close();
  });

  it('fills in fields that a record of an older version lacks', async () => {
    const path = newPath();
    const store = openSqliteStore(path);
    await store.servers.upsert(sampleRecord('a', { tags: ['x'] }));
    await store.close();
    const db = new DatabaseSync(path);
    db.exec(`UPDATE records SET record = json_remove(record, '$.tags', '$.budgets.connect_timeout_ms')`);
    db.close();
    const again = openSqliteStore(path);
    expect(await again.servers.get('a')).toMatchObject({ tags: [], budgets: { connect_timeout_ms: 60_000 } });
    await again.close();
  });

  it('changes nothing when a write fails half-way', async () => {
    const path = newPath();
    const first = openSqliteStore(path);
    await first.servers.upsert(sampleRecord('a'));
    await first.close();
    const db = new DatabaseSync(path);
    db.exec(`CREATE TRIGGER full BEFORE INSERT ON changes WHEN new.id = 'b'
      BEGIN SELECT RAISE(ABORT, 'disk full'); END`);
    db.close();

    const store = openSqliteStore(path);
    const before = await store.servers.list();
    const watch = store.servers.watch(before.revision, new AbortController().signal)[Symbol.asyncIterator]();
    await expect(store.servers.upsert(sampleRecord('b'))).rejects.toThrow('disk full');
    expect(await store.servers.list()).toEqual(before);
    const next = await store.servers.upsert(sampleRecord('c'));
    expect((await watch.next()).value).toMatchObject({ prevRevision: before.revision, revision: next.revision });
    await store.close();
    const again = openSqliteStore(path);
    expect((await again.servers.list()).records.map((record) => record.server_id)).toEqual(['a', 'c']);
    await again.close();
  });
});

describe('a damaged registry file', () => {
  it('is refused when it is empty, with advice', () => {
    const path = newPath();
    writeFileSync(path, '');
    expect(() => openSqliteStore(path)).toThrow(`${path} is empty (0 bytes)`);
    expect(() => openSqliteStore(path)).toThrow('spear-sms restore FILE');
    expect(statSync(path).size).toBe(0);
  });

  it.each([
    ['is not JSON', `'{"server_id"'`, 'the value is not JSON'],
    ['breaks a rule', `json_set(record, '$.transport', 'pigeon')`, 'transport must be'],
    ['is that of another', `json_set(record, '$.server_id', 'a')`, 'server_id does not match the key of the server'],
  ])('reports and skips a record that %s, and it can be replaced', async (_what, to, problem) => {
    const path = newPath();
    const first = openSqliteStore(path);
    for (const id of ['a', 'b', 'c']) await first.servers.upsert(sampleRecord(id));
    await first.close();
    const db = new DatabaseSync(path);
    db.exec(`UPDATE records SET record = ${to} WHERE id IN ('b', 'c')`);
    db.close();
    const store = openSqliteStore(path);
    expect((await store.servers.list()).records.map((record) => record.server_id)).toEqual(['a']);
    expect(store.warnings).toHaveLength(2);
    for (const text of [path, '"b"', problem, 'spear servers rm b']) expect(store.warnings[0]).toContain(text);
    await store.servers.upsert(sampleRecord('b'));
    await store.servers.remove('c');
    await expect(store.servers.remove('c')).rejects.toMatchObject({ code: 'not_found' });
    await store.close();
    const again = openSqliteStore(path);
    expect(again.warnings).toEqual([]);
    expect((await again.servers.list()).records.map((record) => record.server_id)).toEqual(['a', 'b']);
    await again.close();
  });

  it('that could not be created is not left behind', () => {
    const path = newPath();
    expect(() => openSqliteStore(path, { maxBytes: 4096 })).toThrow('full');
    expect(existsSync(path)).toBe(false);
    openSqliteStore(path).close();
  });
});

describe('a disk that is full', () => {
  it('rejects writes with the reason, still serves reads, and accepts removals [store.no_room]', async () => {
    const path = newPath();
    const maxBytes = 64 * 1024;
    const store = openSqliteStore(path, { maxBytes });
    await store.servers.upsert(sampleRecord('a'));
    expect(store.writeProblem()).toBeNull();
    const before = await store.servers.list();
    const large = { upsert: sampleRecord('large', { display_name: 'x'.repeat(60) }) };
    const many = Array.from({ length: 500 }, (_, i) => ({ upsert: { ...large.upsert, server_id: `s${i}` } }));
    await expect(store.servers.apply(many)).rejects.toMatchObject({
      code: 'not_stored',
      message: expect.stringMatching(/registry-\d+\.db: no space left on the disk .*free some space/),
    });
    expect(store.writeProblem()).toContain('no space left');
    expect(await store.servers.list()).toEqual(before);
    await store.servers.remove('a');
    expect(store.writeProblem()).toBeNull();
    await store.close();
  });
});

describe('a backup', () => {
  it('is complete during writes, and restores with another epoch', async () => {
    const path = newPath();
    const store = openSqliteStore(path);
    for (let i = 0; i < 50; i++) await store.servers.upsert(sampleRecord(`s${i}`, { display_name: 'x'.repeat(100) }));
    const copying = store.backup(`${path}.backup`);
    for (let i = 0; i < 20; i++) await store.servers.upsert(sampleRecord(`t${i}`));
    await copying;
    expect(statSync(`${path}.backup`).mode & 0o077).toBe(0);
    const afterwards = await store.servers.upsert(sampleRecord('late'));
    const epoch = await store.servers.epoch();
    await expect(restoreSqliteStore(`${path}.backup`, path)).rejects.toThrow(`${path} is in use by another process`);
    expect(await store.servers.revision()).toBe(afterwards.revision);
    await store.close();

    await restoreSqliteStore(`${path}.backup`, path);
    const restored = openSqliteStore(path);
    const listing = await restored.servers.list();
    expect(listing.epoch).not.toBe(epoch);
    expect(listing.records.length).toBeGreaterThanOrEqual(50);
    expect(listing.revision).toBeGreaterThan(afterwards.revision);
    expect(await restored.servers.get('late')).toBeNull();
    const next = await restored.servers.upsert(sampleRecord('next'));
    expect(next.revision).toBeGreaterThan(listing.revision);
    await restored.close();
    expect(readdirSync(directory).filter((name) => /partial|restore/.test(name))).toEqual([]);
  });

  it('never repeats a revision, however often and wherever it is restored', async () => {
    const path = newPath();
    const first = openSqliteStore(path);
    const copied = await first.servers.upsert(sampleRecord('a'));
    await first.backup(`${path}.backup`);
    await first.servers.upsert(sampleRecord('b'));
    await first.close();
    let highest = 0;
    const epochs = new Set<string>();
    const continued = async (file: string) => {
      const store = openSqliteStore(file);
      const { epoch, revision, records: servers } = await store.servers.list();
      expect(servers.map((record) => record.server_id)).toEqual(['a']);
      expect(revision).toBeGreaterThan(highest);
      // Watchers of the copied registry must list again.
      const signal = new AbortController().signal;
      const watch = store.servers.watch(copied.revision, signal)[Symbol.asyncIterator]();
      await expect(watch.next()).rejects.toMatchObject({ code: 'compacted' });
      epochs.add(epoch);
      ({ revision: highest } = await store.servers.upsert(sampleRecord('c')));
      const { warnings } = store;
      await store.close();
      return warnings;
    };
    await restoreSqliteStore(`${path}.backup`, path);
    expect(await continued(path)).toEqual([]);
    await restoreSqliteStore(`${path}.backup`, path);
    await continued(path);
    const elsewhere = newPath();
    await restoreSqliteStore(`${path}.backup`, elsewhere);
    await continued(elsewhere);
    // Put in place by hand.
    rmSync(elsewhere);
    copyFileSync(`${path}.backup`, elsewhere);
    expect(await continued(elsewhere)).toEqual([expect.stringContaining('was restored from a backup')]);
    expect(epochs.size).toBe(4);
    const again = openSqliteStore(elsewhere);
    expect([await again.servers.revision(), again.warnings]).toEqual([highest, []]);
    await again.close();
  });

  it.each([
    ['an empty file', ''],
    ['a file that is no database', 'not a database '.repeat(500)],
  ])('replaces %s', async (_what, content) => {
    const path = newPath();
    const store = openSqliteStore(path);
    await store.servers.upsert(sampleRecord('a'));
    await store.backup(`${path}.backup`);
    await store.close();
    writeFileSync(path, content);
    await restoreSqliteStore(`${path}.backup`, path);
    const restored = openSqliteStore(path);
    expect(await restored.servers.get('a')).not.toBeNull();
    await restored.close();
  });

  it('restores to a new path', async () => {
    const path = newPath();
    const store = openSqliteStore(path);
    await store.servers.upsert(sampleRecord('a'));
    await store.backup(`${path}.backup`);
    await store.close();
    const elsewhere = join(directory, 'elsewhere', 'registry.db');
    await restoreSqliteStore(`${path}.backup`, elsewhere);
    const restored = openSqliteStore(elsewhere);
    expect((await restored.servers.list()).records.map((record) => record.server_id)).toEqual(['a']);
    await restored.close();
  });

  it('that is not a backup is refused, and the current file stays', async () => {
    const path = newPath();
    const store = openSqliteStore(path);
    await store.servers.upsert(sampleRecord('a'));
    await store.close();
    const foreign = newPath();
    const other = new DatabaseSync(foreign);
    other.exec('CREATE TABLE t (x)');
    other.close();
    await expect(restoreSqliteStore(foreign, path)).rejects.toThrow(`${foreign} is not a registry file`);
    await expect(restoreSqliteStore(join(directory, 'none.db'), path)).rejects.toThrow();
    const again = openSqliteStore(path);
    expect(await again.servers.get('a')).not.toBeNull();
    await again.close();
  });
});

describe('a process killed during many writes', () => {
  it('leaves every acknowledged write, and no revision twice', { timeout: 120_000 }, async () => {
    const path = newPath();
    const expected = new Map<string, string | null>();
    let lastRevision = 0;
    let epoch: string | null = null;
    for (const [round, writes] of [40, 3, 150, 1, 80].entries()) {
      const acknowledged = await stormUntilKilled(path, round, writes);
      expect(acknowledged.length).toBeGreaterThanOrEqual(writes);
      for (const { revision, id, name } of acknowledged) {
        expect(revision).toBeGreaterThan(lastRevision);
        lastRevision = revision;
        expected.set(id, name);
      }

      const store = openSqliteStore(path, { keptChanges: 50 });
      epoch ??= await store.servers.epoch();
      expect(await store.servers.epoch()).toBe(epoch);
      const { revision, records: servers } = await store.servers.list();
      // The write in flight at the kill may be stored without an acknowledgement.
      expect(revision).toBeGreaterThanOrEqual(lastRevision);
      expect(revision).toBeLessThanOrEqual(lastRevision + 1);
      const unheard = revision === lastRevision ? null : await lastChanged(store, lastRevision);
      const stored = new Map(servers.map((record) => [record.server_id, record.display_name]));
      for (const [id, name] of expected) if (id !== unheard) expect(stored.get(id) ?? null).toBe(name);
      for (const id of stored.keys()) expect(expected.has(id) || id === unheard).toBe(true);
      for (const [id, name] of stored) expected.set(id, name);
      for (const id of expected.keys()) if (!stored.has(id)) expected.set(id, null);
      lastRevision = revision;
      await store.close();
    }
  });
});

interface Acknowledged {
  revision: number;
  id: string;
  name: string | null;
}

async function stormUntilKilled(path: string, round: number, writes: number): Promise<Acknowledged[]> {
  const script = fileURLToPath(new URL('./storm-child.ts', import.meta.url));
  const child = spawn(process.execPath, [script, path, String(round)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const acknowledged: Acknowledged[] = [];
  for await (const line of createInterface(child.stdout)) {
    // The pipe may end in the middle of a line: that one was not told.
    if (line.endsWith('}')) acknowledged.push(JSON.parse(line));
    if (acknowledged.length === writes) child.kill('SIGKILL');
  }
  expect(await exited).toEqual([null, 'SIGKILL']);
  return acknowledged;
}

async function lastChanged(store: ReturnType<typeof openSqliteStore>, since: number): Promise<string | null> {
  const stop = new AbortController();
  for await (const event of store.servers.watch(since, stop.signal)) {
    stop.abort();
    return event.upserts[0]?.server_id ?? event.deletes[0] ?? null;
  }
  return null;
}

/** A registry file as the first format had it: at revision 9, where "b" went away, and compacted up to 6. */
function makeFormat1(path: string, record: McpServerRecord): void {
  const db = new DatabaseSync(path);
  db.exec(`
    PRAGMA application_id = 0x53505247;
    PRAGMA user_version = 1;
    CREATE TABLE registry (
      only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
      epoch TEXT NOT NULL,
      revision INTEGER NOT NULL,
      compacted INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE servers (server_id TEXT PRIMARY KEY, origin TEXT NOT NULL, record TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE changes (revision INTEGER PRIMARY KEY, server_id TEXT NOT NULL) STRICT;
    INSERT INTO registry VALUES (1, 'old', 9, 6);
    INSERT INTO changes VALUES (7, 'a'), (8, 'b'), (9, 'b');
  `);
  const insert = db.prepare('INSERT INTO servers VALUES (?, ?, ?)');
  insert.run(record.server_id, 'directory:a.toml', JSON.stringify(record));
  db.close();
}
