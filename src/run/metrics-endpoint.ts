import type { IncomingMessage, ServerResponse } from 'node:http';
import { isLoopbackHost, parseListenAddress } from '../config/address.ts';
import { ConfigError } from '../config/config-error.ts';
import { fewConnections, startHttpServer } from '../server/http/http-server.ts';
import { hostProblem } from '../server/http/origin-check.ts';
import { createMetrics, type Metrics } from '../server/telemetry/metrics.ts';
import { openPrometheusMeters, PROMETHEUS_CONTENT_TYPE } from '../server/telemetry/prometheus.ts';

const DEFAULT_HOST = '127.0.0.1';
/** The run is over: a scrape that is under way has this long to end. */
const CLOSE_GRACE_MS = 500;

/** Instruments, and the endpoint that shows them as long as it is open. */
export interface ServedMetrics extends AsyncDisposable {
  readonly metrics: Metrics;
  /** Where Prometheus reads them. */
  readonly url: string;
  close(): Promise<void>;
}

/** `name`: what the address is called by whoever gave it. @throws ConfigError */
export async function openMetricsEndpoint(given: string, name: string): Promise<ServedMetrics> {
  const address = parseListenAddress(given.startsWith(':') ? `${DEFAULT_HOST}${given}` : given);
  if (address === null) {
    throw new ConfigError(`${name} ${given}: expected HOST:PORT or :PORT, for example ${DEFAULT_HOST}:9464`);
  }
  const meters = openPrometheusMeters(Date.now() - process.uptime() * 1000);
  const metrics = createMetrics(meters.provider, meters.collect);
  const names = isLoopbackHost(address.host) ? [address.host] : null;
  const server = await startHttpServer(
    address,
    null,
    fewConnections,
    (req, res) => void answer(req, res, names, meters.text),
  ).catch(async (error: Error) => {
    await meters.close();
    throw new ConfigError(`${name} ${given}: ${error.message}; name another port, or :0 for any free one`);
  });
  const close = async () => {
    await server.close(CLOSE_GRACE_MS);
    await meters.close();
  };
  return { metrics, url: `${server.url}/metrics`, close, [Symbol.asyncDispose]: close };
}

/** `names`: under which this server may be called; null: any, whoever listens on a network chose to be seen there. */
async function answer(
  req: IncomingMessage,
  res: ServerResponse,
  names: readonly string[] | null,
  text: () => Promise<string>,
): Promise<void> {
  req.on('error', () => {});
  res.on('error', () => {});
  const reply = (status: number, body: string, headers: Record<string, string> = {}) => {
    // A body is not read: whoever sends one is not served a second time on this connection.
    if (req.headers['content-length'] || req.headers['transfer-encoding']) res.setHeader('connection', 'close');
    res.writeHead(status, {
      'content-type': 'text/plain; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...headers,
    });
    res.end(body);
  };
  const foreign = names && hostProblem(req.headers.host, { scheme: 'http', hosts: names, origins: [] });
  if (foreign !== null) return reply(421, 'unknown host name in the Host header\n');
  const path = (req.url ?? '').split('?')[0];
  if (path !== '/metrics' && path !== '/healthz')
    return reply(404, 'not found; this endpoint serves /metrics and /healthz\n');
  if (req.method !== 'GET') return reply(405, 'method not allowed; use GET\n', { allow: 'GET' });
  if (path === '/healthz') return reply(200, 'ok\n');
  try {
    reply(200, await text(), { 'content-type': PROMETHEUS_CONTENT_TYPE });
  } catch {
    reply(503, 'cannot collect metrics\n');
  }
}
