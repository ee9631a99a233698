import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { hasEnded, type RunRecord } from '../../src/server/records/run.ts';
import { useNats } from '../support/engines/use-engine.ts';
import { frame, frameData } from '../support/stream-client.ts';
import { NodeLives, writeNodeFolder } from '../torture/node/node-life.ts';

const START_MS = 120_000;
const PARK_AFTER_MS = 150;
const runs = '/v1/namespaces/default/runs';
const fixture = (path: string) => fileURLToPath(new URL(`../../fixtures/${path}`, import.meta.url));
const parsed = (text: string) => JSON.parse(text) as RunRecord;
const folders: string[] = [];

function newNode(name: string, args: readonly string[] = []): NodeLives {
  const folder = mkdtempSync(join(tmpdir(), 'spear-parked-streams-'));
  folders.push(folder);
  writeNodeFolder(folder, { node: `name = "${name}"\nslots = 2\npark_after_ms = ${PARK_AFTER_MS}\nlease_ms = 2000` });
  const task = (task: string, wasm: string, more = '') =>
    writeFileSync(join(folder, 'tasks.d', `${task}.toml`), `name = "${task}"\nwasm = "${fixture(wasm)}"\n${more}`);
  task('echo', 'c/echo.wasm');
  task('component', 'c/echo.component.wasm');
  task('clerk', 'c/test/clerk.wasm');
  task('own-thread', 'c/test/clerk.wasm', 'isolation = "thread"\n');
  task('restless', 'c/test/clerk.wasm', 'args = ["60"]\n');
  task('sleepy', 'c/test/clerk.wasm', 'args = ["3600000"]\n');
  task('spin', 'c/test/spin.wasm');
  return new NodeLives(folder, args);
}

const submit = async (node: NodeLives, task: string) =>
  parsed((await node.ask('POST', `/v1/namespaces/default/tasks/${task}/runs`, { body: '' })).text).id;
const get = async (node: NodeLives, id: string) => parsed((await node.ask('GET', `${runs}/${id}`)).text);
const result = async (node: NodeLives, id: string) => (await node.ask('GET', `${runs}/${id}/result`)).text;

/** Statuses in the events of a run, until they end. */
async function statuses(node: NodeLives, id: string): Promise<string[]> {
  const { text } = await node.ask('GET', `${runs}/${id}/events`);
  const statuses = [...text.matchAll(/^event: status\n(?:id: \d+\n)?data: (.*)$/gm)].map(([, data]) => data as string);
  return statuses.map((data) => (JSON.parse(data) as { status: string }).status);
}

async function until(node: NodeLives, id: string, status: string): Promise<RunRecord> {
  for (;;) {
    const run = await get(node, id);
    if (run.status === status) return run;
    if (hasEnded(run.status)) throw new Error(`it ended: ${JSON.stringify(run)} ${node.log}`);
    await delay(20);
  }
}

/** A client whose handshake is on its way. */
function knock(node: NodeLives, id: string): WebSocket {
  const address = `${node.url.replace('http', 'ws')}/api/v1/executions/${id}/streams/ws`;
  return new WebSocket(address, 'spear.stream.v1', { headers: { authorization: `Bearer ${node.token()}` } });
}

async function refusal(client: WebSocket): Promise<string> {
  const [, answer] = (await once(client, 'unexpected-response')) as [unknown, IncomingMessage];
  return `${answer.statusCode} ${(await answer.toArray()).join('').trim()}`;
}

/** The client, or why it was refused. */
function answer(client: WebSocket): Promise<WebSocket | string> {
  return Promise.race([once(client, 'open').then(() => client), refusal(client)]);
}

async function connect(node: NodeLives, id: string, client = knock(node, id)): Promise<WebSocket> {
  const outcome = await answer(client);
  if (typeof outcome === 'string')
    throw new Error(
      `refused: ${outcome}; ${JSON.stringify(await get(node, id))}; ${await result(node, id)}; ${node.log}`,
    );
  return outcome;
}

async function say(client: WebSocket, text: string): Promise<string> {
  client.send(frame(1, text));
  const [answer] = (await once(client, 'message')) as [Buffer];
  return frameData(new Uint8Array(answer));
}

async function leave(client: WebSocket): Promise<void> {
  client.close();
  await once(client, 'close');
}

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

describe('a run that waits for a client of its user streams', () => {
  let node: NodeLives;
  beforeAll(async () => {
    node = newNode('n1');
    await node.start();
  }, START_MS);
  afterAll(() => node.kill());

  it.each(['echo', 'component'])(
    '%s: is parked, and resumes for the client [node.park.stream] [node.events]',
    async (task) => {
      const id = await submit(node, task);
      expect(await until(node, id, 'parked')).toMatchObject({
        attempts: 0,
        node: null,
        parked_for: { kind: 'stream' },
      });
      const followed = statuses(node, id);
      const client = await connect(node, id);
      expect(await say(client, 'hello')).toBe('HELLO');
      await leave(client);
      expect(await until(node, id, 'succeeded')).toMatchObject({ attempts: 1 });
      expect(await result(node, id)).toBe('1 frames\n');
      // Also for a client that connects after the end.
      const lived = ['running', 'parked', 'running', 'succeeded'];
      expect([await followed, await statuses(node, id)]).toEqual([lived, lived]);
    },
  );

  it.each(['clerk', 'own-thread'])(
    '%s: is parked after each client, with its node killed in between, and has its history [node.park.stream]',
    async (task) => {
      const id = await submit(node, task);
      await until(node, id, 'parked');
      const first = await connect(node, id);
      expect(await say(first, 'one')).toBe('1 one');
      expect(await say(first, 'two')).toBe('2 two');
      // With a client it is not parked, however long that one says nothing.
      await delay(4 * PARK_AFTER_MS);
      expect((await get(node, id)).status).toBe('running');
      await leave(first);
      await until(node, id, 'parked');
      await node.kill();
      await node.start();
      expect(await until(node, id, 'parked')).toMatchObject({ parked_for: { kind: 'stream' } });
      const session = await node.ask('POST', `${runs}/${id}/streams/session`);
      const { path } = JSON.parse(session.text) as { path: string };
      const address = `${node.url.replace('http', 'ws')}${path}`;
      const second = await connect(node, id, new WebSocket(address, 'spear.stream.v1'));
      expect(await say(second, 'three')).toBe('3 three');
      await node.kill();
      await node.start();
      await until(node, id, 'parked');
      const third = await connect(node, id);
      expect(await say(third, 'bye')).toBe('4 bye');
      await until(node, id, 'succeeded');
      expect(await result(node, id)).toBe('came 1\nwent 1\ncame 1\nwent 1\ncame 1\n');
    },
    START_MS,
  );

  it('has one of two clients that come at once [node.park.stream]', async () => {
    const id = await submit(node, 'echo');
    await until(node, id, 'parked');
    const outcomes = await Promise.all([answer(knock(node, id)), answer(knock(node, id))]);
    expect(outcomes.filter((outcome) => typeof outcome === 'string')).toEqual([
      expect.stringMatching(/^409 another client (?:is waiting for the run|is connected)$/),
    ]);
    const client = outcomes.find((outcome) => typeof outcome !== 'string') as WebSocket;
    expect(await say(client, 'mine')).toBe('MINE');
    expect(await refusal(knock(node, id))).toBe('409 another client is connected');
    await leave(client);
    await until(node, id, 'succeeded');
  });

  it(
    'serves a client that comes while it is being parked [node.park.stream]',
    async () => {
      for (let n = 0; n < 12; n++) {
        const id = await submit(node, 'echo');
        // Before, at and after the moment, which is 250 ms after it began to wait at the earliest.
        await delay(160 + n * 25);
        const client = await connect(node, id);
        expect(await say(client, 'now')).toBe('NOW');
        await leave(client);
        await until(node, id, 'succeeded');
      }
    },
    START_MS,
  );

  it('is cancelled while it is parked, and while a client waits for a slot [node.park.stream]', async () => {
    const id = await submit(node, 'echo');
    await until(node, id, 'parked');
    expect((await node.ask('POST', `${runs}/${id}/cancel`)).status).toBe(202);
    expect((await get(node, id)).status).toBe('cancelled');
    expect(await refusal(knock(node, id))).toContain('409 the run is cancelled');
    expect((await node.ask('POST', `${runs}/${id}/streams/session`)).status).toBe(409);

    const other = await submit(node, 'echo');
    await until(node, other, 'parked');
    const busy = [await submit(node, 'spin'), await submit(node, 'spin')];
    for (const spin of busy) await until(node, spin, 'running');
    const refused = refusal(knock(node, other));
    await until(node, other, 'queued');
    expect(await refusal(knock(node, other))).toBe('409 another client is waiting for the run');
    await node.ask('POST', `${runs}/${other}/cancel`);
    expect(await refused).toContain('409 the run is cancelled');
    for (const spin of busy) await node.ask('POST', `${runs}/${spin}/cancel`);
  });

  it('leaves its place to another where a client does not wait for it [node.park.stream]', async () => {
    const id = await submit(node, 'echo');
    await until(node, id, 'parked');
    const busy = [await submit(node, 'spin'), await submit(node, 'spin')];
    for (const spin of busy) await until(node, spin, 'running');
    const impatient = knock(node, id);
    impatient.on('error', () => {});
    await until(node, id, 'queued');
    impatient.terminate();
    let next = answer(knock(node, id));
    for (const spin of busy) await node.ask('POST', `${runs}/${spin}/cancel`);
    // It may have come before the other was missed.
    while (typeof (await next) === 'string') next = answer(knock(node, id));
    const client = (await next) as WebSocket;
    expect(await say(client, 'patience')).toBe('PATIENCE');
    await leave(client);
    await until(node, id, 'succeeded');
  });

  it('is not parked where it looks round by itself, and parked for a time where that is far [node.park.stream]', async () => {
    const restless = await submit(node, 'restless');
    const sleepy = await submit(node, 'sleepy');
    expect(await until(node, sleepy, 'parked')).toMatchObject({ parked_for: { kind: 'time' } });
    await delay(4 * PARK_AFTER_MS);
    expect((await get(node, restless)).status).toBe('running');
    for (const id of [restless, sleepy]) {
      const client = await connect(node, id);
      expect(await say(client, 'bye')).toBe('1 bye');
      await until(node, id, 'succeeded');
    }
    expect(await result(node, restless)).toMatch(/^(nobody\n){3,}came 1\n$/);
    expect(await result(node, sleepy)).toBe('came 1\n');
  });
});

describe('such a run in a cluster', () => {
  const cluster = useNats();
  let nodes: readonly NodeLives[];
  beforeAll(async () => {
    const queue = [
      '--queue',
      `nats://${cluster()
        .members.map(({ address }) => address)
        .join(',')}`,
    ];
    nodes = ['a', 'b', 'c'].map((name) => newNode(name, queue));
    await Promise.all(nodes.map((node) => node.start()));
  }, START_MS);
  afterAll(async () => {
    await Promise.all(nodes.map((node) => node.kill()));
  });

  it(
    'resumes on the node that the client connected to, or the client is directed to the other node [node.park.stream] [node.events]',
    async () => {
      const [a, b, c] = nodes as [NodeLives, NodeLives, NodeLives];
      const id = await submit(a, 'clerk');
      let said = 0;
      for (const [node, name] of [
        [a, 'a'],
        [b, 'b'],
        [c, 'c'],
      ] as const) {
        await until(node, id, 'parked');
        const client = await connect(node, id);
        said += 1;
        expect(await say(client, name)).toBe(`${said} ${name}`);
        const elsewhere = node === a ? b : a;
        expect((await until(elsewhere, id, 'running')).node).toBe(name);
        expect(await refusal(knock(elsewhere, id))).toBe(`409 the run is on node ${name}: connect to that node`);
        await leave(client);
      }
      await until(b, id, 'parked');
      const last = await connect(b, id);
      expect(await say(last, 'bye')).toBe('4 bye');
      expect(await until(a, id, 'succeeded')).toMatchObject({ attempts: 1 });
      const lived = [...Array.from({ length: 4 }, () => ['running', 'parked']).flat(), 'running', 'succeeded'];
      for (const node of nodes) expect(await statuses(node, id)).toEqual(lived);
    },
    START_MS,
  );
});
