import { existsSync, lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, expect, it } from 'vitest';
import { connectLocalSocket } from '../../src/config/local-socket.ts';
import { createRemoteSource } from '../../src/registry-client/remote-source.ts';
import { onStop, startTestSms, stopAll, temporaryDirectory } from './running-sms.ts';
import { spawnSms } from './sms-process.ts';

afterEach(stopAll);

const modeOf = (path: string) => lstatSync(path).mode & 0o777;

function healthOf(socket: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = get('http://localhost/healthz', { createConnection: () => connectLocalSocket(socket) }, (answer) =>
      resolve(text(answer)),
    );
    request.on('error', reject);
  });
}

it('serves the same user on private sockets, and removes them on close [sms.local_socket]', async () => {
  const { sms, config, nodeToken } = await startTestSms();
  const { sockets, grpcSocket, httpSocket, endpoint } = config.files;
  expect([sockets, grpcSocket, httpSocket].map(modeOf)).toEqual([0o700, 0o600, 0o600]);
  expect(JSON.parse(readFileSync(endpoint, 'utf8'))).toMatchObject({
    grpc_socket: grpcSocket,
    http_socket: httpSocket,
    pid: process.pid,
  });
  expect(await healthOf(httpSocket)).toContain('ok');
  const source = createRemoteSource({ address: 'http://localhost', socket: grpcSocket, token: nodeToken });
  onStop(() => source.close());
  expect(await source.list(AbortSignal.timeout(45_000))).toMatchObject({ revision: 0, records: [] });
  source.close();
  await sms.close();
  expect([grpcSocket, httpSocket, endpoint].map((path) => existsSync(path))).toEqual([false, false, false]);
});

it('replaces the sockets of a killed registry', async () => {
  const directory = temporaryDirectory();
  const args = ['--data', join(directory, 'registry.db'), '--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0'];
  const socket = join(directory, 'sockets', 'http.sock');
  const killed = await spawnSms(args);
  await killed.end('SIGKILL');
  expect(existsSync(socket)).toBe(true);
  await expect(healthOf(socket)).rejects.toThrow('ECONNREFUSED');
  const next = await spawnSms(args);
  expect(await healthOf(socket)).toContain('ok');
  expect(await next.end('SIGTERM')).toBe(0);
  expect(existsSync(socket)).toBe(false);
});

it('does not use sockets in a directory that other users can access', async () => {
  const directory = join(temporaryDirectory(), 'open');
  mkdirSync(directory, { mode: 0o755 });
  const sockets: Socket[] = [];
  const server = createServer((socket) => sockets.push(socket));
  await new Promise<void>((resolve) => server.listen(join(directory, 'http.sock'), resolve));
  onStop(() => void server.close());
  await expect(healthOf(join(directory, 'http.sock'))).rejects.toThrow('is accessible to other users; run: chmod 700');
  const source = createRemoteSource({ address: 'http://localhost', socket: join(directory, 'http.sock') });
  onStop(() => source.close());
  await expect(source.list(AbortSignal.timeout(45_000))).rejects.toThrow('is accessible to other users');
  expect(sockets).toEqual([]);
});

it('serves only the network, and logs it, if its sockets cannot be created', async () => {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, 'sockets'), 'in the way');
  const { http, logged } = await startTestSms({}, join(directory, 'registry.db'));
  expect((await http('GET', '/healthz')).status).toBe(200);
  expect(logged.join('\n')).toContain('error no_local_sockets');
});
