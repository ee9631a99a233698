import { Agent, errors, request } from 'undici';
import { errorCode, errorText } from '../../base/errors.ts';
import type { Secret } from '../secrets/secret.ts';

/** What became of a request: `later`, the same may be taken when it is sent again. */
export type Delivery =
  | { readonly kind: 'taken'; readonly answer: Uint8Array }
  | { readonly kind: 'refused' | 'later'; readonly why: string };

export type Post = (url: string, body: Uint8Array, signal: AbortSignal) => Promise<Delivery>;

export interface Collector {
  readonly post: Post;
  close(): Promise<void>;
}

/** Of an answer nothing but a count is wanted. */
const MAX_ANSWER_BYTES = 64 * 1024;
/** Statuses that the protocol says to try again after. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** Requests to one collector, over a connection that is kept. Redirects are not followed: they would take the headers along. */
export function openCollector(
  contentType: string,
  secrets: ReadonlyMap<string, Secret>,
  userAgent: string,
  timeoutMs: number,
): Collector {
  const agent = new Agent({
    connections: 2,
    maxResponseSize: MAX_ANSWER_BYTES,
    connect: { timeout: timeoutMs },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
  });
  const headers: Record<string, string> = { 'user-agent': userAgent };
  for (const [name, value] of secrets) headers[name] = value.reveal();
  headers['content-type'] = contentType;
  const post: Post = async (url, body, signal) => {
    const within = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    try {
      const answer = await request(url, { dispatcher: agent, method: 'POST', headers, body, signal: within });
      const said = new Uint8Array(await answer.body.arrayBuffer());
      if (answer.statusCode >= 200 && answer.statusCode <= 299) return { kind: 'taken', answer: said };
      const why = `HTTP status ${answer.statusCode}`;
      return { kind: passing.has(answer.statusCode) ? 'later' : 'refused', why };
    } catch (error) {
      if (error instanceof errors.ResponseExceededMaxSizeError) return { kind: 'taken', answer: new Uint8Array() };
      const why = within.aborted ? `no response within ${timeoutMs} ms` : (errorCode(error) ?? errorText(error));
      return { kind: 'later', why };
    }
  };
  return { post, close: () => agent.destroy() };
}
