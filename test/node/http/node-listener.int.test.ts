import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { httpLimitSpecs } from '../../../src/config/limits.ts';
import { nodeListener } from '../../../src/node/http/node-listener.ts';
import type { NodeRoute } from '../../../src/node/http/node-route.ts';
import type { NodeAccess } from '../../../src/node/node-access.ts';
import { NodeMetrics } from '../../../src/node/node-metrics.ts';
import { CallerLimits } from '../../../src/server/http/caller-limits.ts';
import type { Identity } from '../../../src/server/records/permissions.ts';
import { until } from '../../support/until.ts';

const ann: Identity = { name: 'ann', roles: ['viewer'], namespace: '*', mayReadJournals: false, expiresAtMs: null };
const limits = Object.fromEntries(Object.entries(httpLimitSpecs).map(([name, spec]) => [name, spec.default]));

/** A listener with one route, whose callers are looked up as long as the test wants. */
async function open() {
  const lookup = Promise.withResolvers<void>();
  const counts = { lookups: 0, departed: 0, served: 0, watched: 0 };
  const access = {
    identify: async () => {
      counts.lookups += 1;
      await lookup.promise;
      return ann;
    },
    whileValid: () => {
      counts.watched += 1;
      return () => {
        counts.watched -= 1;
      };
    },
  };
  const route: NodeRoute = {
    ...{
      method: 'GET',
      path: '/stream',
      needs: 'view',
      doc: { summary: '', answers: {} },
      longRequest: () => 'stream',
    },
    run: async () => {
      counts.served += 1;
      return { status: 200, body: '' };
    },
  };
  const metrics = new NodeMetrics();
  onTestFinished(() => metrics.close());
  const listener = nodeListener({
    ...{ routes: [route], access: access as unknown as NodeAccess, metrics, tracer: null, log: () => {} },
    origins: { scheme: 'http', hosts: [], origins: [] },
    shutdown: new AbortController().signal,
    callers: new CallerLimits({ limits: limits as never, onShed: () => {} }),
  });
  const server = createServer((req, res) => {
    res.once('close', () => {
      counts.departed += 1;
    });
    listener(req, res);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { port, counts, found: lookup.resolve };
}

it('does not serve a client that disconnects while its token is looked up', async () => {
  const { port, counts, found } = await open();
  const client = connect(port, '127.0.0.1');
  client.write('GET /stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer x\r\n\r\n');
  await until(() => counts.lookups === 1, 'the lookup');
  client.destroy();
  await until(() => counts.departed === 1, 'the client to be gone');
  found();
  await new Promise(setImmediate);
  expect(counts).toMatchObject({ served: 0, watched: 0 });
});
