import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { WebSocket } from 'ws';
import { eventually } from '../support/eventually.ts';
import { runningNode } from './running-node.ts';

const RUNS = '/v1/namespaces/default/runs';
const HELLO = '/v1/namespaces/default/tasks/hello/runs';
const ECHO = '/v1/namespaces/default/tasks/echo/runs';

it('refuses a WebSocket upgrade with a foreign Host or Origin [node.streams.origin]', async () => {
  const node = await runningNode('[node]\nallowed_hosts = ["node.test"]\ndrain_ms = 0\n');
  const { id } = JSON.parse((await node.ask('POST', ECHO, { body: '' })).text) as { id: string };
  const url = `${node.url.replace('http', 'ws')}/api/v1/executions/${id}/streams/ws`;
  const connect = async (headers: Record<string, string>) => {
    const authorization = `Bearer ${node.token()}`;
    const socket = new WebSocket(url, 'spear.stream.v1', { headers: { authorization, ...headers } });
    const outcome = await once(socket, 'open').then(() => 'open', String);
    return { outcome, socket };
  };
  expect((await connect({ host: 'evil.example' })).outcome).toContain('421');
  expect((await connect({ origin: 'https://evil.example' })).outcome).toContain('403');
  const own = await connect({ host: 'node.test', origin: 'http://node.test' });
  expect(own.outcome).toBe('open');
  own.socket.terminate();
});

it('writes an audit event for every read of a journal, and for a backup, which has all [node.journal-read]', async () => {
  const node = await runningNode('[audit]\nfile = "FOLDER/audit.jsonl"\n');
  const run = await node.ask('POST', HELLO, { body: '', headers: { prefer: 'wait=60' } });
  const id = run.headers.get('spear-run') ?? '';
  expect((await node.ask('GET', `${RUNS}/${id}/journal`)).text).toContain('"t":"header"');
  expect((await node.ask('POST', '/v1/backup')).status).toBe(200);
  await node.close();
  const lines = readFileSync(join(node.folder, 'audit.jsonl'), 'utf8').trim().split('\n');
  const events = lines.map((line) => JSON.parse(line)).filter(({ event }) => event.startsWith('sms.'));
  expect(events).toMatchObject([
    { event: 'sms.journal_read', actor: 'admin', peer: '127.0.0.1', via: 'http', run: id, run_namespace: 'default' },
    { event: 'sms.served', actor: 'admin', peer: '127.0.0.1', via: 'http', method: 'POST /v1/backup', code: '200' },
  ]);
});

it('has no path with a control character in it', async () => {
  const node = await runningNode();
  expect((await node.ask('GET', '/v1/namespaces/default/runs')).status).toBe(200);
  for (const path of ['/v1/namespaces/default%00/runs', '/v1/namespaces/default%0a/runs', `${RUNS}/x%00`]) {
    expect((await node.ask('GET', path)).status).toBe(404);
  }
});

/** Opens event streams of a run one after the other; they end with the test. */
async function openStreams(url: string, token: string, count: number): Promise<Response[]> {
  const leave = new AbortController();
  onTestFinished(() => leave.abort());
  const headers = { authorization: `Bearer ${token}` };
  const opened: Response[] = [];
  for (let n = 0; n < count; n++) opened.push(await fetch(url, { headers, signal: leave.signal }));
  return opened;
}

it('limits the streams of one caller and keeps connections for probes and short requests [http.callers] [http.reserved]', async () => {
  const limits = 'max_connections_per_peer = 8\nreserved_connections = 3\nstreams_per_caller = 3';
  const node = await runningNode(`[node]\ndrain_ms = 0\n${limits}\n`);
  const { id } = JSON.parse((await node.ask('POST', ECHO, { body: '' })).text) as { id: string };
  const events = `${node.url}${RUNS}/${id}/events`;
  const one = await openStreams(events, node.token('submitter'), 4);
  expect(one.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  expect(one[3]?.headers.get('retry-after')).toBe('1');
  expect(await one[3]?.json()).toMatchObject({ type: 'urn:spear:problem:too-many-streams' });
  // Of the eight connections of this address five may be long.
  const other = await openStreams(events, node.token(), 3);
  expect(other.map(({ status }) => status)).toEqual([200, 200, 429]);
  for (const path of ['/healthz', '/readyz', RUNS]) expect((await node.ask('GET', path)).status).toBe(200);
  expect((await node.ask('POST', HELLO, { body: 'x' })).status).toBe(202);
  const metrics = (await node.ask('GET', '/metrics')).text;
  expect(metrics).toContain('spearlet_shed_total{reason="streams"} 1');
  expect(metrics).toContain('spearlet_shed_total{reason="connections"} 1');
});

it('counts a WebSocket as a stream of its caller until it is closed [http.callers]', async () => {
  const node = await runningNode('[node]\ndrain_ms = 0\nstreams_per_caller = 1\n');
  const { id } = JSON.parse((await node.ask('POST', ECHO, { body: '' })).text) as { id: string };
  const session = await node.ask('POST', `${RUNS}/${id}/streams/session`);
  const { path } = JSON.parse(session.text) as { path: string };
  const socket = new WebSocket(`${node.url.replace('http', 'ws')}${path}`, 'spear.stream.v1');
  await once(socket, 'open');
  const events = async () => (await openStreams(`${node.url}${RUNS}/${id}/events`, node.token(), 1))[0]?.status;
  expect(await events()).toBe(429);
  const other = new WebSocket(`${node.url.replace('http', 'ws')}${path.replace(/\?.*/, '')}`, 'spear.stream.v1', {
    headers: { authorization: `Bearer ${node.token()}` },
  });
  await expect(once(other, 'open')).rejects.toThrow('429');
  socket.close();
  await once(socket, 'close');
  await eventually(async () => (await events()) === 200, 'room for a stream');
});

it('accepts a submission while another caller announces large bodies and sends nothing [http.uploads]', async () => {
  const node = await runningNode();
  const path = `POST ${HELLO} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${node.token()}\r\n`;
  const head = `${path}content-length: ${32 * 1024 * 1024}\r\nexpect: 100-continue\r\n\r\n`;
  const silent = Array.from({ length: 9 }, () => connect(Number(new URL(node.url).port), '127.0.0.1'));
  for (const socket of silent) {
    onTestFinished(() => {
      socket.destroy();
    });
    socket.on('error', () => {}).write(head);
    await once(socket, 'data'); // the node waits for the body
  }
  const submitted = await node.ask('POST', HELLO, { body: 'x', token: node.token('submitter') });
  expect(submitted.status).toBe(202);
});
