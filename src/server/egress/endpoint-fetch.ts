import type { FetchLike } from '@modelcontextprotocol/client';
import { isJsonObject, parseJson } from '../../base/json.ts';
import { knownSecrets } from '../secrets/redactor.ts';

/** For one request to an authorization server, response included. */
const ENDPOINT_TIMEOUT_MS = 15_000;
/** Metadata and tokens are a few KiB. */
const MAX_RESPONSE_BYTES = 256 * 1024;

const secretFields = ['access_token', 'refresh_token', 'id_token', 'client_secret', 'registration_access_token'];

/**
 * A fetch for metadata and token endpoints, on top of one with egress rules. Responses are bounded in time and size, and
 * their secrets are registered with the redactor before the caller sees them. Redirects are not followed here; the
 * OAuth library follows those within the same origin.
 */
export function endpointFetch(fetch: FetchLike, signal?: AbortSignal): FetchLike {
  return async (url, init) => {
    const deadline = AbortSignal.timeout(ENDPOINT_TIMEOUT_MS);
    const signals = [deadline, init?.signal, signal].filter((each) => each != null);
    const response = await fetch(url, { redirect: 'manual', ...init, signal: AbortSignal.any(signals) });
    const text = await wholeText(response);
    registerSecrets(text);
    const { status, statusText, headers } = response;
    const hasBody = status !== 204 && status !== 205 && status !== 304;
    return new Response(hasBody ? text : null, { status, statusText, headers: plainHeaders(headers) });
  };
}

async function wholeText(response: Response): Promise<string> {
  if (response.body === null) return '';
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body) {
    bytes += part.length;
    if (bytes > MAX_RESPONSE_BYTES) throw new TypeError(`the response has more than ${MAX_RESPONSE_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

function registerSecrets(text: string): void {
  const body = parseJson(text);
  if (!isJsonObject(body)) return;
  for (const field of secretFields) {
    const secret = body[field];
    if (typeof secret === 'string') knownSecrets.addOfRecord(secret);
  }
}

/** Removes headers that describe the encoded body: the body is decoded. */
function plainHeaders(headers: Headers): Headers {
  const plain = new Headers(headers);
  for (const name of ['content-encoding', 'content-length', 'transfer-encoding']) plain.delete(name);
  return plain;
}
