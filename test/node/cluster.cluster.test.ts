import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readJournal } from '../../src/runtime/durable/read-journal.ts';
import { hasEnded, type RunRecord } from '../../src/server/records/run.ts';
import { useNats } from '../support/engines/use-engine.ts';
import { NodeLives, writeNodeFolder } from '../torture/node/node-life.ts';

const LEASE_MS = 2_000;
const DEADLINE_MS = 60_000;
const root = mkdtempSync(join(tmpdir(), 'spear-cluster-'));
const cluster = useNats();
const folders = ['a', 'b'].map((name) => join(root, name)) as [string, string];
const hello = '/v1/namespaces/default/tasks/hello/runs';
const agent = '/v1/namespaces/default/tasks/agent/runs';
const runs = '/v1/namespaces/default/runs';
const waiting = { prefer: 'wait=60' };
const fixture = (path: string) => fileURLToPath(new URL(`../../fixtures/${path}`, import.meta.url));
const parsed = (text: string) => JSON.parse(text) as RunRecord;
let a: NodeLives;
let b: NodeLives;

beforeAll(async () => {
  const address = `nats://${cluster()
    .members.map((member) => member.address)
    .join(',')}`;
  const nodes = folders.map((folder, at) => {
    const node = `name = "node-${at}"\nlease_ms = ${LEASE_MS}\ndrain_ms = 0\nslots = 16\nmax_queued = 200`;
    writeNodeFolder(folder, { turnMs: 400, node });
    const sleep = `name = "sleep"\nwasm = ${JSON.stringify(fixture('c/echo.wasm'))}\n`;
    writeFileSync(join(folder, 'tasks.d', 'echo.toml'), sleep.replace('"sleep"', '"echo"'));
    return new NodeLives(folder, ['--queue', address]);
  });
  [a, b] = nodes as [NodeLives, NodeLives];
  await Promise.all([a.start(), b.start()]);
}, 90_000);

afterAll(async () => {
  await Promise.all([a?.kill(), b?.kill()]);
  rmSync(root, { recursive: true, force: true });
});

async function ended(node: NodeLives, id: string): Promise<RunRecord> {
  const until = performance.now() + DEADLINE_MS;
  for (;;) {
    const run = parsed((await node.ask('GET', `${runs}/${id}`)).text);
    if (hasEnded(run.status)) return run;
    if (performance.now() > until) throw new Error(`${id} is ${run.status}: ${a.log} ${b.log}`);
    await delay(50);
  }
}

const submit = async (node: NodeLives, path: string, body = 'x') =>
  parsed((await node.ask('POST', path, { body })).text).id;

/** Who called tools: run and ordinal, of both nodes' servers. */
const effects = () =>
  folders.flatMap((folder) => {
    const trail = join(folder, 'trail');
    if (!existsSync(trail)) return [];
    const lines = readFileSync(trail, 'utf8').trim().split('\n');
    return lines.map((line) => line.split(' ').slice(0, 2).join(' '));
  });

describe('two nodes on one NATS cluster', () => {
  it('run what either is given, and tell its result, journal and events on both [cluster.any-node]', async () => {
    const answer = await a.ask('POST', hello, { body: 'x', headers: waiting });
    expect(answer).toMatchObject({ status: 200, text: 'hello from C\n' });
    const many = await Promise.all(Array.from({ length: 24 }, (_, n) => submit(n % 2 ? a : b, agent)));
    const records = await Promise.all(many.map((id, n) => ended(n % 2 ? b : a, id)));
    expect(records.filter(({ status }) => status !== 'succeeded').map(({ exit }) => exit)).toEqual([]);
    expect(new Set(records.map(({ node }) => node))).toEqual(new Set(['node-0', 'node-1']));
    const [id = ''] = many;
    for (const node of [a, b]) {
      expect((await node.ask('GET', `${runs}/${id}/result`)).text).toMatch(/all done\n$/);
      const { text } = await node.ask('GET', `${runs}/${id}/events`);
      expect(text).toContain('event: tool');
      expect(text).toMatch(/event: status\nid: \d+\ndata: \{"status":"succeeded"/);
      const journal = (await node.ask('GET', `${runs}/${id}/journal`)).text;
      const { records: lines } = readJournal('journal', null, Buffer.from(journal));
      expect(lines.filter(({ t }) => t === 'tool.finished')).toHaveLength(3);
      expect(lines.at(-1)).toMatchObject({ t: 'end', reason: 'exit', exit: 0 });
    }
    const { runs: listed } = JSON.parse((await b.ask('GET', `${runs}?limit=100`)).text) as { runs: RunRecord[] };
    expect(listed).toHaveLength(25);
  });

  it('know a submission by its key on either node [cluster.idempotent]', async () => {
    const headers = { 'idempotency-key': 'once' };
    const [one, other] = await Promise.all([a, b].map((node) => node.ask('POST', hello, { body: 'x', headers })));
    expect([one?.status, other?.status]).toEqual([202, 202]);
    expect(parsed(one?.text ?? '').id).toBe(parsed(other?.text ?? '').id);
    expect((await b.ask('POST', hello, { body: 'y', headers })).status).toBe(422);
  });

  it('end a run that was cancelled on the other, and run one again [cluster.cancel]', async () => {
    const id = await submit(a, agent);
    await a.ask('GET', `${runs}/${id}`);
    for (const node of [b, a]) expect((await node.ask('POST', `${runs}/${id}/cancel`)).status).toBe(202);
    expect(await ended(b, id)).toMatchObject({ status: 'cancelled' });
    const again = parsed((await b.ask('POST', `${runs}/${id}/retry`)).text);
    expect(await ended(a, again.id)).toMatchObject({ status: 'succeeded', retry_of: id });
  });

  it('go on where a node was killed, without calling a tool twice [cluster.resume]', async () => {
    const many = await Promise.all(Array.from({ length: 16 }, () => submit(b, agent)));
    // Some have called their first tool by now, and none its last.
    const before = effects().length;
    while (effects().length < before + 6) await delay(20);
    await a.kill();
    const records = await Promise.all(many.map((id) => ended(b, id)));
    expect(records.filter(({ status }) => status !== 'succeeded').map(({ exit }) => exit)).toEqual([]);
    const resumed = records.filter(({ attempts }) => attempts > 1);
    expect(resumed.length).toBeGreaterThan(0);
    expect(new Set(resumed.map(({ node }) => node))).toEqual(new Set(['node-1']));
    const all = effects().filter((effect) => many.some((id) => effect.startsWith(id)));
    expect(new Set(all).size).toBe(all.length);
    await a.start();
  });

  it('hand over what runs when one is to end [cluster.drain]', async () => {
    const many = await Promise.all(Array.from({ length: 16 }, () => submit(a, agent)));
    const before = effects().length;
    while (effects().length < before + 4) await delay(20);
    expect(await a.stop()).toBe(0);
    const records = await Promise.all(many.map((id) => ended(b, id)));
    expect(records.filter(({ status }) => status !== 'succeeded').map(({ exit }) => exit)).toEqual([]);
    const all = effects().filter((effect) => many.some((id) => effect.startsWith(id)));
    expect(new Set(all).size).toBe(all.length);
    await a.start();
  });

  it('lose nothing when a server is killed [cluster.server-killed]', async () => {
    const many = await Promise.all(Array.from({ length: 30 }, (_, n) => submit(n % 2 ? a : b, agent)));
    const [, victim] = cluster().members;
    await victim?.kill();
    const records = await Promise.all(many.map((id) => ended(a, id)));
    expect(records.filter(({ status }) => status !== 'succeeded').map(({ exit }) => exit)).toEqual([]);
    const all = effects().filter((effect) => many.some((id) => effect.startsWith(id)));
    expect(new Set(all).size).toBe(all.length);
    await victim?.start();
  });
});
