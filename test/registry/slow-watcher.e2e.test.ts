import { type ClientHttp2Stream, connect } from 'node:http2';
import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, expect, it } from 'vitest';
import { WatchMcpServersRequestSchema } from '../../src/generated/proto/sms/mcp_registry_pb.ts';
import { RegistryCache } from '../../src/registry-client/cache.ts';
import { untilRevision } from './cache-events.ts';
import { OriginalClient, status } from './original-client.ts';
import { onStop, startTestSms, stopAll, type TestSms } from './running-sms.ts';

afterEach(stopAll);

const QUEUE = 16;
const WRITES = 400;
/** Large enough that a reader who never reads fills every buffer on the way with a few events. */
const payload = 'x'.repeat(15_000);

/** A watcher that opens its stream by hand and then reads nothing. */
function openAndNeverRead(sms: TestSms): ClientHttp2Stream {
  const session = connect(`http://${sms.sms.grpc}`, { settings: { initialWindowSize: 65_535 } });
  onStop(() => session.destroy());
  session.on('error', () => {});
  const stream = session.request({
    ':method': 'POST',
    ':path': '/sms.McpRegistryService/WatchMcpServers',
    'content-type': 'application/grpc',
    te: 'trailers',
    authorization: `Bearer ${sms.nodeToken}`,
  });
  const message = toBinary(
    WatchMcpServersRequestSchema,
    create(WatchMcpServersRequestSchema, { sinceRevision: 0n, includeRecords: true }),
  );
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  stream.end(Buffer.concat([head, message]));
  stream.pause();
  return stream;
}

it('a watcher that does not read is cut off with ABORTED and slows neither writers nor other watchers [sms.watch.aborted]', async () => {
  const sms = await startTestSms({ limit: { watcher_queue: QUEUE, slow_reader_ms: 120_000 } });
  const slow = openAndNeverRead(sms);
  await new Promise((resolve) => slow.once('response', resolve));
  const cache = new RegistryCache({ source: sms.source() });
  onStop(() => cache.close());
  cache.start();
  await cache.ready(10_000);

  const admin = new OriginalClient(sms.sms.grpc, sms.adminToken);
  const before = process.memoryUsage().rss;
  for (let index = 0; index < WRITES; index++) {
    const record = {
      server_id: 'big',
      transport: 'MCP_TRANSPORT_STDIO',
      stdio: { command: 'x', args: [`${index}${payload}`] },
    };
    // Every write is answered although nobody reads the slow watcher's stream.
    expect(await admin.call('UpsertMcpServer', { record })).toEqual({ revision: index + 1 });
  }
  // All the events together would be larger than this by far, for each watcher.
  expect(process.memoryUsage().rss - before).toBeLessThan(300 * 1024 * 1024);
  await untilRevision(cache, WRITES);
  expect(
    cache
      .snapshot()
      ?.records.get('big')
      ?.stdio?.args[0]?.startsWith(`${WRITES - 1}x`),
  ).toBe(true);

  const trailers = new Promise<Record<string, unknown>>((resolve) => slow.once('trailers', resolve));
  let bytes = 0;
  slow.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  slow.resume();
  expect((await trailers)['grpc-status']).toBe(String(status.ABORTED));
  // What was on its way when it was cut off, and not everything that happened.
  expect(bytes).toBeLessThan((QUEUE + 40) * payload.length);
  expect((await sms.http('GET', '/metrics')).text).toMatch(/^spear_sms_watchers_lagging_total [1-9]/m);
}, 60_000);
