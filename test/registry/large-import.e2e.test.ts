import { readFileSync, statSync } from 'node:fs';
import { afterEach, expect, it } from 'vitest';
import { openSqliteStore } from '../../src/server/store/sqlite-store.ts';
import { starvedMs } from '../support/starved.ts';
import { onStop, stopAll, temporaryDirectory } from './running-sms.ts';
import { type SmsProcess, spawnSms } from './sms-process.ts';

afterEach(stopAll);

const RECORDS = 3_000;
const ROUNDS = 5;
const KILLS = 3;
/** What a probe of an orchestrator gives up after is far above. */
const HEALTHZ_MS = 250;

const importPath = '/admin/api/mcp/servers/import';
const bodyOf = (round: number) =>
  JSON.stringify({
    servers: Array.from({ length: RECORDS }, (_, index) => ({
      server_id: `server-${index}`,
      display_name: `Server number ${index} of round ${round}`,
      transport: 'stdio',
      stdio: { command: 'npx', args: ['-y', `@example/server-${index}`], env: { TOKEN: `\${ENV:TOKEN_${index}}` } },
      allowed_tools: ['read_*', 'list_*'],
    })),
  });

interface Started {
  readonly sms: SmsProcess;
  /** Who asks without a pause is taken for a flood otherwise. */
  readonly authorization: string;
  readonly send: (round: number, query?: string) => Promise<Response>;
}

async function startWith(directory: string): Promise<Started> {
  const data = `${directory}/registry.db`;
  const sms = await spawnSms(['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', data]);
  const authorization = `Bearer ${readFileSync(`${directory}/admin.token`, 'utf8').trim()}`;
  const headers = { authorization, 'content-type': 'application/json' };
  return {
    sms,
    authorization,
    send: (round, query = '') =>
      fetch(`${sms.http}${importPath}${query}`, { method: 'POST', body: bodyOf(round), headers }),
  };
}

/** Asks without a pause until it is stopped; the longest that an answer took while both sides had a processor. */
function askHealth({ sms: { http, child }, authorization }: Started): () => Promise<number> {
  let asking = true;
  let longest = 0;
  const clock = () => performance.now() - starvedMs(process.pid) - starvedMs(child.pid);
  const done = (async () => {
    while (asking) {
      const startedAt = clock();
      await (await fetch(`${http}/healthz`, { headers: { authorization } })).text();
      longest = Math.max(longest, clock() - startedAt);
    }
  })();
  const stop = async () => {
    asking = false;
    await done;
    return longest;
  };
  onStop(async () => void (await stop().catch(() => {})));
  return stop;
}

it('of thousands of records does not keep others waiting [store.apply] [sms.http.import]', async () => {
  const started = await startWith(temporaryDirectory());
  const { send } = started;
  let best = Number.POSITIVE_INFINITY;
  // A machine that is busy with other things makes everything wait: only what is slow every time is slow by itself.
  for (let round = 1; round <= ROUNDS && best >= HEALTHZ_MS; round++) {
    const stop = askHealth(started);
    const { plan } = (await (await send(round)).json()) as { plan: string };
    const applied = await send(round, `?apply=${plan}`);
    expect(await applied.json()).toMatchObject({ outcome: 'applied', revision: round * RECORDS });
    best = Math.min(best, await stop());
  }
  expect(best).toBeLessThan(HEALTHZ_MS);
}, 120_000);

it('that is killed while it is written leaves all of its records or none [store.apply] [sms.http.import]', async () => {
  for (let kill = 0; kill < KILLS; kill++) {
    const directory = temporaryDirectory();
    const { sms, send } = await startWith(directory);
    const { plan } = (await (await send(1)).json()) as { plan: string };
    const log = `${directory}/registry.db-wal`;
    const before = statSync(log).size;
    const applying = send(1, `?apply=${plan}`).then(
      ({ status }) => status,
      () => null,
    );
    // As soon as a first byte of it has reached the disk.
    while (statSync(log).size === before) await new Promise((resolve) => setImmediate(resolve));
    await sms.end('SIGKILL');
    const acknowledged = (await applying) === 200;
    const store = openSqliteStore(`${directory}/registry.db`);
    const { records: servers } = await store.servers.list();
    await store.close();
    expect([0, RECORDS]).toContain(servers.length);
    if (acknowledged) expect(servers).toHaveLength(RECORDS);
  }
}, 120_000);
