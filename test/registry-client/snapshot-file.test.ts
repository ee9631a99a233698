import { chmodSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RegistryCache } from '../../src/registry-client/cache.ts';
import { restoreSnapshot } from '../../src/registry-client/snapshot.ts';
import { readSnapshotFile, snapshotPath, writeSnapshotFile } from '../../src/registry-client/snapshot-file.ts';
import { RegistryRefused } from '../../src/registry-client/source.ts';
import { serverKind } from '../../src/server/records/server.ts';
import { stopAll, temporaryDirectory } from '../registry/running-sms.ts';
import { sampleRecord } from '../server/records/server-samples.ts';
import { FakeEnvironment, settled } from './fake-environment.ts';
import { event, FakeSource, heartbeat, listing } from './fake-source.ts';

afterEach(stopAll);

const source = 'https://sms.internal:50051';
const snapshotAt = (revision: number, ids = ['a', 'b']) =>
  restoreSnapshot(serverKind, null, listing(revision, ids)).snapshot;

describe('the file of a snapshot', () => {
  let path: string;
  beforeEach(() => {
    path = snapshotPath(join(temporaryDirectory(), 'spear'), source);
  });

  it('returns the saved records and their confirmation time, to the owner alone [sms.node.saved]', async () => {
    await writeSnapshotFile(path, source, snapshotAt(5), 1_700_000_000_000);
    const saved = await readSnapshotFile(path, source, serverKind);
    expect(saved).toMatchObject({ confirmedAtMs: 1_700_000_000_000, snapshot: { epoch: 'e1', revision: 5 } });
    expect([...(saved?.snapshot.records ?? [])]).toEqual([...snapshotAt(5).records]);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(path, '..')).mode & 0o777).toBe(0o700);
    expect(readdirSync(join(path, '..'))).toHaveLength(1);
  });

  it('is shared: a run confirms what another run has written', async () => {
    await writeSnapshotFile(path, source, snapshotAt(5), 1_700_000_000_000);
    const { ino } = statSync(path);
    await writeSnapshotFile(path, source, snapshotAt(5), 1_700_000_005_000);
    await writeSnapshotFile(path, source, snapshotAt(5), 1_700_000_001_000);
    expect(statSync(path)).toMatchObject({ ino, mtimeMs: 1_700_000_005_000 });
    await writeSnapshotFile(path, source, snapshotAt(6, ['a']), 1_700_000_006_000);
    expect((await readSnapshotFile(path, source, serverKind))?.snapshot.records.size).toBe(1);
  });

  it('is not used if it was changed, truncated, readable by others, or of another registry', async () => {
    await writeSnapshotFile(path, source, snapshotAt(5), 1_700_000_000_000);
    const whole = readFileSync(path, 'utf8');
    expect(await readSnapshotFile(path, 'https://other.example', serverKind)).toBeNull();
    for (const text of ['', whole.slice(0, -10), whole.replace('"stdio"', '"stdi0"'), whole.replace('e1', 'e2 "')]) {
      writeFileSync(path, text);
      expect(await readSnapshotFile(path, source, serverKind), text.slice(0, 80)).toBeNull();
    }
    writeFileSync(path, whole);
    expect(await readSnapshotFile(path, source, serverKind)).not.toBeNull();
    chmodSync(path, 0o640);
    expect(await readSnapshotFile(path, source, serverKind)).toBeNull();
    chmodSync(path, 0o600);
    chmodSync(join(path, '..'), 0o755);
    expect(await readSnapshotFile(path, source, serverKind)).toBeNull();
    utimesSync(path, 1, 1);
  });
});

describe('a cache with the snapshot of an earlier run', () => {
  const environment = new FakeEnvironment();
  const saved = (ageMs = 60_000) => ({ snapshot: snapshotAt(5), confirmedAtMs: environment.now() - ageMs });
  let fake: FakeSource;
  let cache: RegistryCache;
  const start = async (options: { maxStalenessMs?: number; ageMs?: number } = {}) => {
    const { maxStalenessMs = null, ageMs } = options;
    cache = new RegistryCache({ source: fake, environment, maxStalenessMs, saved: saved(ageMs) });
    cache.start();
    await settled();
  };
  beforeEach(() => {
    fake = new FakeSource(listing(9, ['c']));
  });
  afterEach(() => cache.close());

  it('resumes the watch from the saved revision without a list', async () => {
    await start();
    expect(cache.view()).toBeNull();
    expect(fake.stream.since).toBe(5);
    fake.stream.send(heartbeat(5));
    await settled();
    expect(cache.status()).toMatchObject({ state: 'ready', revision: 5, ageMs: 0 });
    fake.stream.send(event(5, 6, { upserts: [sampleRecord('d')] }));
    await settled();
    expect([...(cache.snapshot()?.records.keys() ?? [])].sort()).toEqual(['a', 'b', 'd']);
    expect(fake.lists).toHaveLength(0);
  });

  it('lists if the source does not know the revision, or does not answer', async () => {
    await start();
    fake.stream.fail(new Error('compacted'));
    await environment.advance(300);
    expect(cache.status()).toMatchObject({ state: 'ready', revision: 9 });
    await cache.close();

    await start();
    await environment.advance(10_300);
    expect(fake.lists).toHaveLength(2);
    expect(cache.status()).toMatchObject({ state: 'ready', revision: 9 });
  });

  it('serves it on request, with its age, until the source answers [sms.node.saved]', async () => {
    fake.answer = new Error('gone');
    fake.watchError = new Error('gone');
    await start({ maxStalenessMs: 100_000 });
    expect(cache.useSaved()).toBe(60_000);
    expect(cache.status()).toMatchObject({ state: 'degraded', revision: 5, ageMs: 60_000 });
    expect(cache.view()).toMatchObject({ stale: false });
    await environment.advance(41_000);
    expect(cache.view()).toMatchObject({ stale: true });
    fake.answer = listing(9, ['c']);
    fake.watchError = null;
    await environment.advance(5_000);
    expect(cache.status()).toMatchObject({ state: 'ready', revision: 9 });
  });

  it.each([
    ['too old', new Error('gone'), 100_001],
    ['from the future', new Error('gone'), -1],
    ['of a registry that refuses this node', new RegistryRefused('unauthenticated'), 1],
  ])('does not serve what is %s', async (_, error, ageMs) => {
    fake.answer = error;
    fake.watchError = error;
    await start({ maxStalenessMs: 100_000, ageMs });
    expect(cache.useSaved()).toBeNull();
    expect(cache.view()).toBeNull();
  });
});
