import { afterEach, describe, expect, it } from 'vitest';
import { isHeartbeat, type RegistryWatchItem } from '../../../src/registry-client/source.ts';
import type { RegistryEvent } from '../../../src/server/records/record-kind.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { nextMessage, OriginalClient, status } from '../original-client.ts';
import { fsRecord, onStop, startTestSms, stopAll, type TestSms } from '../running-sms.ts';

afterEach(stopAll);

const put = (sms: TestSms, id: string, fields: object = {}) =>
  sms.http('PUT', `/admin/api/mcp/servers/${id}`, { json: { ...fsRecord, ...fields, server_id: id } });

/** A node's watch; it ends with the test. */
function watch(sms: TestSms, since: number): AsyncIterator<RegistryWatchItem> {
  const end = new AbortController();
  onStop(() => end.abort());
  return sms.source().watch(since, end.signal)[Symbol.asyncIterator]();
}

async function next(items: AsyncIterator<RegistryWatchItem>): Promise<RegistryWatchItem> {
  const step = await items.next();
  if (step.done === true) throw new Error('the watch ended');
  return step.value;
}

async function nextEvent(items: AsyncIterator<RegistryWatchItem>): Promise<RegistryEvent<McpServerRecord>> {
  for (;;) {
    const item = await next(items);
    if (!isHeartbeat(item)) return item;
  }
}

async function failure(items: AsyncIterator<RegistryWatchItem>): Promise<unknown> {
  for (;;) {
    const item = await items.next().catch((error: unknown) => ({ error }));
    if ('error' in item) return item.error;
    if (item.done === true) throw new Error('the watch ended without an error');
  }
}

describe('a watch with records', () => {
  it('carries the changed record, and links events by prev_revision [sms.watch.records] [sms.watch.prev_revision]', async () => {
    const sms = await startTestSms();
    const { epoch } = await sms.source().list(AbortSignal.timeout(45_000));
    const items = watch(sms, 0);
    expect(await next(items)).toEqual({ heartbeat: true, epoch, revision: 0 });
    await put(sms, 'a', { tags: ['x'] });
    await put(sms, 'b');
    await sms.http('DELETE', '/admin/api/mcp/servers/a');
    expect(await nextEvent(items)).toMatchObject({
      epoch,
      prevRevision: 0,
      revision: 1,
      upserts: [{ server_id: 'a', tags: ['x'], mod_revision: 1, stdio: fsRecord.stdio }],
      deletes: [],
    });
    expect(await nextEvent(items)).toMatchObject({ prevRevision: 1, revision: 2, upserts: [{ server_id: 'b' }] });
    expect(await nextEvent(items)).toMatchObject({ prevRevision: 2, revision: 3, upserts: [], deletes: ['a'] });
  });

  it('begins with everything after since_revision as one event [sms.watch.since]', async () => {
    const sms = await startTestSms();
    for (const id of ['a', 'b', 'c']) await put(sms, id);
    await sms.http('DELETE', '/admin/api/mcp/servers/b');
    expect(await nextEvent(watch(sms, 1))).toMatchObject({
      prevRevision: 1,
      revision: 4,
      upserts: [{ server_id: 'c' }],
      deletes: ['b'],
    });
    expect(await nextEvent(watch(sms, 0))).toMatchObject({
      prevRevision: 0,
      revision: 4,
      upserts: [{ server_id: 'a' }, { server_id: 'c' }],
    });
  });

  it('says that nothing changed, at once and then again and again [sms.watch.heartbeat]', async () => {
    const sms = await startTestSms({ limit: { heartbeat_ms: 100 } });
    await put(sms, 'a');
    const items = watch(sms, 1);
    for (let beats = 0; beats < 3; beats++) expect(await next(items)).toMatchObject({ heartbeat: true, revision: 1 });
    await put(sms, 'b');
    expect(await nextEvent(items)).toMatchObject({ prevRevision: 1, revision: 2 });
    expect(await next(items)).toMatchObject({ heartbeat: true, revision: 2 });
  });

  it('sees changes that the directory and other protocols make [sms.watch.records]', async () => {
    const sms = await startTestSms();
    const items = watch(sms, 0);
    await next(items);
    const record = { server_id: 'g', transport: 'MCP_TRANSPORT_STDIO', stdio: { command: 'x' } };
    await new OriginalClient(sms.sms.grpc, sms.adminToken).call('UpsertMcpServer', { record });
    expect(await nextEvent(items)).toMatchObject({ upserts: [{ server_id: 'g' }] });
  });
});

describe('a watch that cannot begin where it wants', () => {
  it('fails with FAILED_PRECONDITION from a revision that does not exist yet [sms.watch.failed_precondition]', async () => {
    const sms = await startTestSms();
    await put(sms, 'a');
    const stream = new OriginalClient(sms.sms.grpc, sms.nodeToken).stream('WatchMcpServers', { since_revision: 2 });
    await expect(nextMessage(stream)).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    const far = new OriginalClient(sms.sms.grpc, sms.nodeToken).stream('WatchMcpServers', {
      since_revision: '18446744073709551615',
    });
    await expect(nextMessage(far)).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
  });

  it('fails with FAILED_PRECONDITION from a compacted revision, but from 0 gets all ids [sms.watch.failed_precondition]', async () => {
    const sms = await startTestSms({ limit: { kept_changes: 2 } });
    for (const id of ['a', 'b', 'c', 'd', 'e']) await put(sms, id);
    const client = new OriginalClient(sms.sms.grpc, sms.nodeToken);
    await expect(nextMessage(client.stream('WatchMcpServers', { since_revision: 1 }))).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
    });
    expect(await nextMessage(client.stream('WatchMcpServers', { since_revision: 3 }))).toEqual({
      event: { revision: 5, upserts: ['d', 'e'], deletes: [] },
    });
    expect(await nextMessage(client.stream('WatchMcpServers', { since_revision: 0 }))).toEqual({
      event: { revision: 5, upserts: ['a', 'b', 'c', 'd', 'e'], deletes: [] },
    });
  });
});

it('refuses watchers beyond its limit, and has room again when one leaves', async () => {
  const sms = await startTestSms({ limit: { max_watchers: 1 } });
  const first = new AbortController();
  const items = sms.source().watch(0, first.signal)[Symbol.asyncIterator]();
  await items.next();
  expect(String(await failure(watch(sms, 0)))).toContain('resource_exhausted');
  first.abort();
  await items.next().catch(() => {});
  for (;;) {
    const again = await watch(sms, 0)
      .next()
      .catch(() => null);
    if (again !== null) break;
  }
});

it('ends every watch with UNAVAILABLE when the registry ends', async () => {
  const sms = await startTestSms();
  const items = watch(sms, 0);
  await next(items);
  const ended = failure(items);
  await sms.sms.close();
  expect(String(await ended)).toContain('unavailable');
});
