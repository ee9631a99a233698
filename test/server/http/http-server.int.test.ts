import { once } from 'node:events';
import { connect, Socket } from 'node:net';
import { expect, it, onTestFinished, vi } from 'vitest';
import { fewConnections, startHttpServer } from '../../../src/server/http/http-server.ts';

it('enables TCP keep-alive on an upgraded connection, which has no request timeout', async () => {
  const probes = vi.spyOn(Socket.prototype, 'setKeepAlive');
  onTestFinished(() => probes.mockRestore());
  const upgraded = Promise.withResolvers<void>();
  const server = await startHttpServer(
    { host: '127.0.0.1', port: 0 },
    null,
    fewConnections,
    () => {},
    (_req, socket) => {
      upgraded.resolve();
      socket.destroy();
    },
  );
  onTestFinished(() => server.close(0));
  const client = connect(Number(new URL(server.url).port), '127.0.0.1');
  client.write('GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n');
  await upgraded.promise;
  expect(probes).toHaveBeenCalledWith(true, 30_000);
  await once(client.resume(), 'close');
});
