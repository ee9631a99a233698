import { writeFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { flagWords } from '../../src/cli/run/registry-flags.ts';
import { readSnapshotFile, snapshotPath } from '../../src/registry-client/snapshot-file.ts';
import { openRemoteRegistry } from '../../src/run/open-registry.ts';
import { stopKind } from '../../src/server/records/stop-kind.ts';
import { fsRecord, startTestSms, stopAll, type TestSms, temporaryDirectory } from '../registry/running-sms.ts';

const STOPS = '/admin/api/stops';
/** Shorter than the interval at which snapshots are written. */
const PROMPTLY_MS = 4_000;

afterEach(async () => {
  await stopAll();
  vi.unstubAllEnvs();
});

async function follow(sms: TestSms) {
  const opened = await openRemoteRegistry(
    { address: `http://${sms.sms.grpc}`, token: sms.nodeToken },
    {},
    { words: flagWords, profiles: false, say: () => {} },
  );
  opened.cache.start();
  return opened;
}

describe('a node that is killed just after it confirmed a stop', () => {
  async function stopped() {
    const state = temporaryDirectory();
    vi.stubEnv('XDG_STATE_HOME', state);
    const sms = await startTestSms();
    await sms.http('POST', '/admin/api/mcp/servers', { json: fsRecord });
    const node = await follow(sms);
    expect(await node.cache.ready(10_000)).toBe(true);
    const path = snapshotPath(`${state}/spear`, node.platform?.address ?? '', '-stops');
    const saved = async () => [
      ...((await readSnapshotFile(path, node.platform?.address ?? '', stopKind))?.snapshot.records.keys() ?? []),
    ];
    const { body } = await sms.http('POST', STOPS, { json: { scope: 'all', reason: 'incident 12' } });
    const id = String(body.stop_id);
    await expect.poll(saved, { timeout: PROMPTLY_MS, interval: 20 }).toEqual([id]);
    await node.close();
    await sms.sms.close();
    return { sms, path, id };
  }

  it('applies it after a restart without the registry [stop.stored]', async () => {
    const { sms, id } = await stopped();
    const restarted = await follow(sms);
    expect(restarted.cache.useSaved()).not.toBeNull();
    expect([...(restarted.cache.view()?.stops?.keys() ?? [])]).toEqual([id]);
    await restarted.close();
  });

  it('waits for the registry if the saved stops cannot be read', async () => {
    const { sms, path } = await stopped();
    writeFileSync(path, 'damaged');
    const restarted = await follow(sms);
    expect([restarted.cache.useSaved(), restarted.cache.view()]).toEqual([null, null]);
    await restarted.close();
  });
});
