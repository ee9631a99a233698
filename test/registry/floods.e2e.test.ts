import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import { request as requestByTls } from 'node:https';
import { connect as connectTcp, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, expect, it, vi } from 'vitest';
import { HealthCheckRequestSchema } from '../../src/generated/proto/grpc/health/v1/health_pb.ts';
import { createRemoteSource } from '../../src/registry-client/remote-source.ts';
import { HeldBytes } from '../../src/server/http/http-reply.ts';
import { startHttpServer } from '../../src/server/http/http-server.ts';
import { selfSigned } from '../support/certificates.ts';
import { fsRecord, onStop, startTestSms, stopAll, type TestSms } from './running-sms.ts';

afterEach(stopAll);

/**
 * To the registry, which is in this process, everything happens at once from now on: no pause of a busy machine earns a
 * peer more.
 */
function stopClock(): void {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now());
  onStop(() => clock.mockRestore());
}

const RESOURCE_EXHAUSTED = '8';

function openSession(sms: TestSms, initialWindowSize?: number): ClientHttp2Session {
  const settings = initialWindowSize === undefined ? {} : { settings: { initialWindowSize } };
  const session = connect(`http://${sms.sms.grpc}`, settings);
  session.on('error', () => {});
  onStop(() => session.destroy());
  return session;
}

function call(session: ClientHttp2Session, method: string, token?: string): ClientHttp2Stream {
  const stream = session.request({
    ':method': 'POST',
    ':path': method,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  });
  stream.on('error', () => {});
  const message = toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema, {}));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  stream.end(Buffer.concat([head, message]));
  return stream;
}

/** The status that came with the headers, or undefined: the call goes on. */
async function statusOf(stream: ClientHttp2Stream): Promise<unknown> {
  const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
  return headers['grpc-status'];
}

const check = '/grpc.health.v1.Health/Check';
const watch = '/grpc.health.v1.Health/Watch';
const list = '/sms.McpRegistryService/ListMcpServers';

it('lets one peer without a token watch the health of a few services only, on however many connections [sms.flood]', async () => {
  const sms = await startTestSms({ limit: { max_anonymous_calls_per_peer: 8 } });
  const sessions = [1, 2, 3].map(() => openSession(sms));
  const statuses = await Promise.all(
    sessions.flatMap((session) => Array.from({ length: 10 }, () => statusOf(call(session, watch)))),
  );
  expect(statuses.filter((status) => status === undefined)).toHaveLength(8);
  expect(statuses.filter((status) => status === RESOURCE_EXHAUSTED)).toHaveLength(22);
  // Who shows a token has room, and what ends gives its place back.
  expect(await statusOf(call(openSession(sms), watch, sms.nodeToken))).toBeUndefined();
  expect((await sms.http('GET', '/healthz')).status).toBe(200);
  expect((await sms.http('GET', '/metrics')).text).toContain(
    'spear_sms_shed_total{protocol="grpc",reason="too_many"} 22',
  );
});

it('ends the connection of a peer that begins calls without a token faster than it may', async () => {
  const sms = await startTestSms({ limit: { anonymous_calls_per_second: 5 } });
  stopClock();
  const session = openSession(sms);
  const closed = once(session, 'close');
  for (let count = 0; count < 50; count++) call(session, check).close(constants.NGHTTP2_CANCEL);
  await closed;
  // From where the flood comes nobody gets in until it is over; its own user has another door.
  const source = createRemoteSource({
    address: sms.sms.grpc,
    socket: sms.config.files.grpcSocket,
    token: sms.nodeToken,
  });
  onStop(() => source.close());
  expect(await source.list(AbortSignal.timeout(45_000))).toMatchObject({ revision: 0 });
});

it('bounds the calls of a connection', async () => {
  const sms = await startTestSms({ limit: { max_calls_per_connection: 7 } });
  const session = openSession(sms);
  const [settings] = (await once(session, 'remoteSettings')) as [{ maxConcurrentStreams: number }];
  expect(settings.maxConcurrentStreams).toBe(7);
});

async function openIdle(address: string, count: number): Promise<Socket[]> {
  const port = Number(address.split(':').at(-1));
  const sockets = Array.from({ length: count }, () => connectTcp(port, '127.0.0.1').on('error', () => {}));
  onStop(() => {
    for (const socket of sockets) socket.destroy();
  });
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  return sockets;
}

it('lets no idle connections keep others out [sms.flood]', async () => {
  const sms = await startTestSms({ limit: { max_connections_per_peer: 20, max_connections: 40 } });
  for (const address of [sms.sms.http, sms.sms.grpc]) {
    const sockets = await openIdle(address, 60);
    const gone = sockets.slice(0, 40).map((socket) => (socket.closed ? null : once(socket.resume(), 'close')));
    await Promise.all(gone);
  }
  expect((await sms.http('GET', '/readyz')).status).toBe(200);
  expect(await sms.source().list(AbortSignal.timeout(45_000))).toMatchObject({ revision: 0 });
});

it('closes a gRPC connection that does nothing', async () => {
  const sms = await startTestSms({ limit: { idle_connection_ms: 200 } });
  await once(openSession(sms), 'close');
});

/** What is asked through the socket of the registry's own user. */
async function askLocally(sms: TestSms, path: string): Promise<string> {
  const asked = request({ socketPath: sms.config.files.httpSocket, path, headers: { host: 'localhost' } }).end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return text(response);
}

it('cuts off a peer without a token that asks by HTTP faster than it may, and serves its own user on [sms.flood]', async () => {
  const sms = await startTestSms({ limit: { anonymous_calls_per_second: 5 } });
  stopClock();
  const asked = Array.from({ length: 20 }, () => sms.http('GET', '/readyz', { token: null }).catch(() => null));
  const answered = (await Promise.all(asked)).filter((answer) => answer !== null);
  expect(answered.length).toBeGreaterThanOrEqual(5);
  expect(answered.length).toBeLessThan(15);
  expect(await askLocally(sms, '/readyz')).toContain('serving');
  const shed = /spear_sms_shed_total\{protocol="http",reason="flooding"\} (\d+)/.exec(
    await askLocally(sms, '/metrics'),
  );
  expect(Number(shed?.[1])).toBeGreaterThanOrEqual(20 - answered.length);
});

it('does not count what somebody with a token asks', async () => {
  const sms = await startTestSms({ limit: { anonymous_calls_per_second: 5 } });
  for (let count = 0; count < 20; count++) expect((await sms.http('GET', '/readyz')).status).toBe(200);
});

it('closes a connection on which many requests come without waiting for an answer', async () => {
  const sms = await startTestSms();
  const [socket] = await openIdle(sms.sms.http, 1);
  socket?.write('GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(1_000));
  const answers = (await text(socket as Socket).catch(() => '')).split('HTTP/1.1 200').length - 1;
  expect(answers).toBeLessThanOrEqual(4);
  expect(await askLocally(sms, '/metrics')).toContain('{protocol="http",reason="flooding"} 1');
});

it('refuses connections of a peer that opens more than it may', async () => {
  const sms = await startTestSms({ limit: { connections_per_second: 10 } });
  stopClock();
  const sockets = await openIdle(sms.sms.grpc, 30);
  await Promise.all(sockets.slice(10).map((socket) => (socket.closed ? null : once(socket.resume(), 'close'))));
  expect(sockets.slice(0, 10).every((socket) => !socket.destroyed)).toBe(true);
});

it('bounds the TLS handshakes of a peer', async () => {
  const limits = { max: 1_000, maxPerPeer: 1_000, gate: null };
  const server = await startHttpServer({ host: '127.0.0.1', port: 0 }, selfSigned(), limits, (_, res) =>
    res.end('here'),
  );
  onStop(() => server.close(0));
  const sockets = await openIdle(server.authority, 60);
  const closed = sockets.slice(32).map((socket) => (socket.closed ? null : once(socket.resume(), 'close')));
  await Promise.all(closed);
  expect(sockets.slice(0, 32).every((socket) => !socket.destroyed)).toBe(true);
  // Whoever is through with it makes room.
  for (const socket of sockets) socket.destroy();
  const get = async () => {
    const asked = requestByTls(server.url, { rejectUnauthorized: false, agent: false }).end();
    return text(((await once(asked, 'response')) as [IncomingMessage])[0]);
  };
  let first = '';
  while (first === '') first = await get().catch(() => '');
  expect(await Promise.all(Array.from({ length: 20 }, get))).toEqual(Array.from({ length: 20 }, () => 'here'));
});

async function putLarge(sms: TestSms, id: string): Promise<void> {
  const args = Array.from({ length: 13 }, () => 'y'.repeat(4_000));
  const json = { ...fsRecord, server_id: id, stdio: { command: 'x', args } };
  expect((await sms.http('PUT', `/admin/api/mcp/servers/${id}`, { json })).status).toBe(201);
}

/** Calls for a list that has room once, none of which reads it. */
async function unreadLists(limit: { readonly slow_reader_ms: number }) {
  const sms = await startTestSms({
    limit: { max_answer_bytes_per_peer: 1_048_576, max_answer_bytes: 2_097_152, ...limit },
  });
  for (let index = 0; index < 14; index++) await putLarge(sms, `s${index}`);
  const session = openSession(sms, 0);
  return { sms, unread: Array.from({ length: 30 }, () => call(session, list, sms.nodeToken)) };
}

it('holds one copy of a list for all who wait for it [sms.flood]', async () => {
  const { sms, unread } = await unreadLists({ slow_reader_ms: 60_000 });
  expect(await Promise.all(unread.map(statusOf))).toEqual(unread.map(() => undefined));
  // Another revision is another copy, and there is no room for a second one of this size.
  await putLarge(sms, 's14');
  const further = call(openSession(sms), list, sms.nodeToken).resume();
  const [trailers] = (await once(further, 'trailers')) as [Record<string, unknown>];
  expect(trailers['grpc-status']).toBe(RESOURCE_EXHAUSTED);
});

it('cuts off who does not read a list, and has room for the next one then [sms.flood]', async () => {
  const { sms, unread } = await unreadLists({ slow_reader_ms: 500 });
  await Promise.all(unread.map((stream) => once(stream, 'close')));
  await putLarge(sms, 's14');
  expect((await sms.source().list(AbortSignal.timeout(45_000))).records).toHaveLength(15);
});

it('cuts off who never reads the end of a small answer', async () => {
  const sms = await startTestSms({ limit: { slow_reader_ms: 300 } });
  const streams = [check, '/no.such/Method', list].map((method) => call(openSession(sms, 0), method, sms.nodeToken));
  await Promise.all(streams.map((stream) => once(stream, 'close')));
});

it('counts what several wait for once, and always lets a peer have one answer', () => {
  const held = new HeldBytes({ max: 25, maxPerPeer: 10 });
  const [large, small, other] = [Buffer.alloc(20), Buffer.alloc(4), Buffer.alloc(4)];
  const first = held.hold('a', large);
  const second = held.hold('a', large);
  expect([first, second].every((release) => release !== null)).toBe(true);
  expect(held.hold('a', small)).toBeNull();
  expect(held.hold('b', small)).not.toBeNull();
  expect(held.hold('c', other)).toBeNull();
  expect(held.bytes).toBe(24);
  first?.();
  first?.();
  expect(held.bytes).toBe(24);
  second?.();
  expect(held.bytes).toBe(4);
  expect(held.hold('a', small)).not.toBeNull();
});
