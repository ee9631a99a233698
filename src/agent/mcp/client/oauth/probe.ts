import type { FetchLike } from '@modelcontextprotocol/client';
import { version } from '../../../../base/version.ts';
import type { McpTransport } from '../../../../server/records/record.ts';
import { boundFetch } from '../transport/bounded-fetch.ts';
import type { HttpTarget, McpLibrary } from '../transport/transport.ts';
import { type Challenge, readChallenge } from './challenge.ts';

export interface Probe {
  readonly target: HttpTarget;
  readonly transport: McpTransport;
  readonly library: McpLibrary;
  readonly fetch: FetchLike;
  readonly signal: AbortSignal;
}

const PROBE_TIMEOUT_MS = 15_000;
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/**
 * What a server wants, by the way it refuses whoever comes without a token: at the handshake, or where it lists its
 * tools. Null: it refuses nothing.
 */
export async function probeChallenge(probe: Probe): Promise<Challenge | null> {
  const { target, library } = probe;
  let challenge: Challenge | null = null;
  /** What kept us from the server; the library says less. */
  let unreached: unknown = null;
  const signal = AbortSignal.any([probe.signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]);
  const watching: FetchLike = async (url, init) => {
    const signals = [signal, init?.signal].filter((each) => each != null);
    const response = await probe.fetch(url, { ...init, signal: AbortSignal.any(signals) }).catch((error: unknown) => {
      unreached = error;
      throw error;
    });
    if (response.status === 401) challenge ??= readChallenge(response.headers.get('www-authenticate'));
    return response;
  };
  const unwatched = { maxMessageBytes: MAX_MESSAGE_BYTES, tooLarge: () => {}, broken: () => {} };
  const options = { fetch: boundFetch(watching, unwatched), requestInit: { headers: { ...target.headers } } };
  const transport =
    probe.transport === 'http_sse_legacy'
      ? new library.SSEClientTransport(target.url, options)
      : new library.StreamableHTTPClientTransport(target.url, options);
  const client = new library.Client(
    { name: 'spear', version },
    { capabilities: {}, versionNegotiation: { mode: 'auto' } },
  );
  try {
    await client.connect(transport, { timeout: PROBE_TIMEOUT_MS });
    await client.request({ method: 'tools/list' }, { timeout: PROBE_TIMEOUT_MS, signal });
  } catch {
    // A refusal is what we came for; only a server that cannot be reached is a failure.
    if (unreached !== null && challenge === null) throw unreached;
  } finally {
    await client.close().catch(() => {});
  }
  probe.signal.throwIfAborted();
  return challenge;
}
