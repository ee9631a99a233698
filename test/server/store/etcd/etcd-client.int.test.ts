import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { EtcdClient } from '../../../../src/server/store/etcd/etcd-client.ts';

it('reports why a member closed the connection, even if the last attempt timed out [etcd.tls]', async () => {
  const connections: Socket[] = [];
  const server = createServer((socket) => {
    connections.push(socket.on('error', () => {}));
    // As a server that speaks TLS does; on a busy machine the next answer may take longer than there is time.
    if (connections.length === 1) socket.destroy();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = new EtcdClient({
    endpoints: [`http://127.0.0.1:${port}`],
    prefix: 'spear',
    tls: { ca: null, cert: null, key: null },
    login: null,
  });
  onTestFinished(() => {
    client.close();
    for (const socket of connections) socket.destroy();
    server.close();
  });
  const asking = client.ask(({ kv }, options) => kv.range({}, options), { deadlineMs: 2_000 });
  await expect(asking).rejects.toThrow('not encrypted; if etcd requires TLS, set store.etcd.ca');
  expect(connections).toHaveLength(2);
});
