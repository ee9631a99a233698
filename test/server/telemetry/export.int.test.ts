import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { compileTelemetry } from '../../../src/config/telemetry.ts';
import { Secret } from '../../../src/server/secrets/secret.ts';
import type { Tracer } from '../../../src/server/telemetry/span.ts';
import { openTelemetry } from '../../../src/server/telemetry/telemetry.ts';
import { until } from '../../support/until.ts';

interface Sent {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** What takes spans, and answers each request as a test wants. */
async function openReceiver(respond: (response: ServerResponse, request: number) => void) {
  const sent: Sent[] = [];
  const server = createServer(async (req, res) => {
    const body = Buffer.concat(await req.toArray()).toString();
    sent.push({ path: req.url ?? '', headers: req.headers, body });
    respond(res, sent.length);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sent };
}

function open(url: string, env: Record<string, string> = {}) {
  const said: string[] = [];
  const variables = { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', ...env };
  const config = compileTelemetry(undefined, undefined, { env: variables, readFile: () => '' });
  if (config === null) throw new Error('it is off');
  const telemetry = openTelemetry(config, 'test', (text) => said.push(text));
  onTestFinished(() => telemetry.close());
  return { telemetry, tracer: telemetry.tracer as Tracer, said };
}

const ok = (response: ServerResponse) => response.setHeader('content-type', 'application/json').end('{}');
const namesIn = ({ body }: Sent) => [...body.matchAll(/"name":"(span \d+)"/g)].map(([, name]) => name);

describe('spans sent to a collector', () => {
  it('are sent in batches, with the configured headers and without secrets [telemetry.settings] [telemetry.no-content]', async () => {
    const { url, sent } = await openReceiver(ok);
    const { tracer, telemetry, said } = open(url, {
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20of-a-test-0123',
    });
    const secret = new Secret('a-secret-in-a-span-name-0123456789').reveal();
    for (const number of [1, 2, 3]) {
      const attributes = { told: `x ${secret} y`, long: 'l'.repeat(10_000), list: [secret] };
      tracer.begin({ name: `span ${number}`, parent: null, attributes }).end();
    }
    await telemetry.close();
    expect(sent).toHaveLength(1);
    expect(sent[0]).toMatchObject({ path: '/v1/traces', headers: { authorization: 'Bearer of-a-test-0123' } });
    expect(namesIn(sent[0] as Sent)).toEqual(['span 1', 'span 2', 'span 3']);
    expect(sent[0]?.body).not.toContain(secret);
    expect(sent[0]?.body.length).toBeLessThan(10_000);
    expect(said).toEqual([]);
  });

  it('are retried if the collector may accept them later, and end once [telemetry.unreachable]', async () => {
    const { url, sent } = await openReceiver((res, request) => (request < 3 ? res.writeHead(503).end() : ok(res)));
    const { tracer, said } = open(url, { OTEL_BSP_SCHEDULE_DELAY: '1' });
    const span = tracer.begin({ name: 'span 1', parent: null });
    span.end('failed');
    span.end();
    await until(() => sent.length === 3, 'three requests');
    expect(sent.map(namesIn)).toEqual([['span 1'], ['span 1'], ['span 1']]);
    expect(said).toEqual([`telemetry: export to ${url} failed: HTTP status 503`]);
  });

  it('are dropped and counted if they are refused or the queue is full [telemetry.unreachable]', async () => {
    const partial = JSON.stringify({ partialSuccess: { rejectedSpans: 2, errorMessage: 'no' } });
    const { url } = await openReceiver((res, request) => {
      if (request === 1) res.writeHead(400).end();
      else res.setHeader('content-type', 'application/json').end(partial);
    });
    const refused = open(url);
    refused.tracer.begin({ name: 'span 1', parent: null }).end();
    await refused.telemetry.close();
    expect(refused.said.at(-1)).toContain('1 spans dropped');
    const full = open(url, { OTEL_BSP_MAX_QUEUE_SIZE: '5' });
    for (let number = 0; number < 12; number++) full.tracer.begin({ name: `span ${number}`, parent: null }).end();
    await full.telemetry.close();
    expect(full.said).toEqual([
      `telemetry: export to ${url} failed: 2 of 5 spans rejected`,
      'telemetry: 9 spans dropped: the collector did not accept them in time',
    ]);
  });

  it('are dropped without a response, and do not follow redirects [telemetry.unreachable]', async () => {
    const elsewhere = await openReceiver(ok);
    const moved = await openReceiver((res) => res.writeHead(307, { location: `${elsewhere.url}/v1/traces` }).end());
    const redirected = open(moved.url);
    redirected.tracer.begin({ name: 'span 1', parent: null }).end();
    await redirected.telemetry.close();
    expect(elsewhere.sent).toEqual([]);
    expect(redirected.said[0]).toContain('HTTP status 307');
    const silent = await openReceiver(() => {});
    const waiting = open(silent.url, { OTEL_EXPORTER_OTLP_TIMEOUT: '100' });
    waiting.tracer.begin({ name: 'span 1', parent: null }).end();
    await waiting.telemetry.close();
    expect(waiting.said[0]).toContain('no response within 100 ms');
  });
});
