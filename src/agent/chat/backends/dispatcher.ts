import { type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';
import type { CompiledProxy } from '../../../config/host/host-config.ts';

/** Connections of one backend; further requests wait for one, each under its own deadline. */
export const MAX_CONNECTIONS = 128;
/** An agent's tools may take their time between two calls of the model. */
const KEEP_ALIVE_MS = 30_000;

/** The keep-alive pool of one backend, direct or through the proxy that its address calls for. */
export function openDispatcher(url: URL, proxy: CompiledProxy, connectTimeoutMs: number): Dispatcher {
  const pool = {
    // HTTP/2 would put all requests of a backend on one connection, and a provider's reset on all of them.
    allowH2: false,
    bodyTimeout: 0,
    connections: MAX_CONNECTIONS,
    connectTimeout: connectTimeoutMs,
    // The request's own deadline rules; undici's defaults of five minutes would undercut it.
    headersTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
  };
  const address = (url.protocol === 'https:' ? proxy.https : proxy.http)?.reveal();
  if (address === undefined) return new Pool(url.origin, pool);
  return new EnvHttpProxyAgent({
    ...pool,
    // Given explicitly, all three: what is left out is read from the process's environment.
    httpProxy: address,
    httpsProxy: address,
    noProxy: proxy.noProxy,
    // The proxy agents build some of their pools without these options.
    factory: (origin: string | URL, options: object) => new Pool(origin, { ...pool, ...options }),
  });
}
