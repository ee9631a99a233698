import { readFileSync } from 'node:fs';
import { afterEach, expect, it } from 'vitest';
import { RegistryCache } from '../../src/registry-client/cache.ts';
import { createRemoteSource } from '../../src/registry-client/remote-source.ts';
import { untilRevision } from './cache-events.ts';
import { OriginalClient } from './original-client.ts';
import { onStop, stopAll, temporaryDirectory } from './running-sms.ts';
import { spawnSms } from './sms-process.ts';

afterEach(stopAll);

const ROUNDS = 4;
const WRITERS = 4;
const ACKS_PER_ROUND = 40;
const NODES = 3;

interface Acknowledged {
  readonly id: string;
  readonly value: number;
  readonly revision: number;
}

it('loses no acknowledged write and repeats no revision when it is killed, and every node converges [sms.crash]', async () => {
  const directory = temporaryDirectory();
  const data = `${directory}/registry.db`;
  let sms = await spawnSms(['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', data]);
  const token = (name: string) => readFileSync(`${directory}/${name}.token`, 'utf8').trim();
  const addresses = ['--grpc', sms.grpc, '--http', sms.http.replace('http://', ''), '--data', data];
  const caches = Array.from({ length: NODES }, () => {
    const source = createRemoteSource({ address: sms.grpc, token: token('node') });
    const cache = new RegistryCache({ source, timing: { backoff: { firstMs: 20, maxMs: 200 } } });
    onStop(async () => {
      await cache.close();
      source.close();
    });
    cache.start();
    return cache;
  });

  const acknowledged: Acknowledged[] = [];
  let value = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const before = acknowledged.reduce((max, { revision }) => Math.max(max, revision), 0);
    const wanted = acknowledged.length + ACKS_PER_ROUND;
    let killed: Promise<unknown> | null = null;
    const write = async (writer: number) => {
      const client = new OriginalClient(sms.grpc, token('admin'));
      while (killed === null) {
        value += 1;
        const mine = { id: `writer-${writer}`, value };
        const record = {
          server_id: mine.id,
          display_name: `value ${mine.value}`,
          transport: 'MCP_TRANSPORT_STDIO',
          stdio: { command: 'x' },
        };
        const answer = await client.call('UpsertMcpServer', { record }).catch(() => null);
        if (answer === null) continue;
        acknowledged.push({ ...mine, revision: Number(answer.revision) });
        if (acknowledged.length >= wanted) killed ??= sms.end('SIGKILL');
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)));
    await killed;
    sms = await spawnSms(addresses);
    const { revision } = await new OriginalClient(sms.grpc, token('node')).call('ListMcpServers');
    expect(Number(revision)).toBeGreaterThanOrEqual(Math.max(...acknowledged.map((write) => write.revision)));
    const ofThisRound = acknowledged.slice(-ACKS_PER_ROUND).map((write) => write.revision);
    expect(Math.min(...ofThisRound)).toBeGreaterThan(before);
  }

  const revisions = acknowledged.map(({ revision }) => revision);
  expect(new Set(revisions).size).toBe(revisions.length);
  const { servers, revision } = (await new OriginalClient(sms.grpc, token('node')).call('ListMcpServers')) as {
    servers: { server_id: string; display_name: string }[];
    revision: number;
  };
  for (const { server_id, display_name } of servers) {
    const last = acknowledged.filter(({ id }) => id === server_id).at(-1);
    // What was on its way when the process died may be there although nobody was told.
    expect(Number(display_name.replace('value ', ''))).toBeGreaterThanOrEqual(last?.value ?? 0);
  }
  expect(servers).toHaveLength(WRITERS);

  await Promise.all(caches.map((cache) => untilRevision(cache, revision)));
  for (const cache of caches) {
    const seen = [...(cache.snapshot()?.records.values() ?? [])].map(({ server_id, display_name }) => ({
      server_id,
      display_name,
    }));
    expect(seen.sort((a, b) => (a.server_id < b.server_id ? -1 : 1))).toEqual(
      servers.map(({ server_id, display_name }) => ({ server_id, display_name })),
    );
  }
}, 120_000);
