import { cutText, isHeaderName } from '../base/text.ts';
import { looksLikeCredential } from '../server/records/credentials.ts';
import { Secret } from '../server/secrets/secret.ts';

const MAX_URL_SHOWN = 200;

/** Headers that the HTTP transport sets: a second value would be dropped or would break the request. */
const OWN_HEADERS = new Set([
  'accept',
  'connection',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'proxy-authorization',
  'te',
  'transfer-encoding',
  'upgrade',
]);

/** Describes what is wrong with a provider URL; undefined: valid. Shows only the parts that cannot hold a credential. */
export function backendUrlComplaint(text: string): string | undefined {
  const shown = text.includes('@')
    ? ''
    : `, found ${JSON.stringify(cutText(text.split('?', 1)[0] ?? '', MAX_URL_SHOWN))}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    return `must be an http:// or https:// url, such as https://api.openai.com/v1${shown}`;
  }
  if (url.username !== '' || url.password !== '')
    return 'must not contain a user name or password: use api_key or headers';
  if (url.hash !== '') return `must not have a fragment (#)${shown}`;
  return undefined;
}

export function headerNameComplaint(name: string): string | undefined {
  if (!isHeaderName(name)) return 'is not a valid HTTP header name';
  return OWN_HEADERS.has(name.toLowerCase()) ? 'is a header that the host sets itself' : undefined;
}

/** Secret for a header value. Only values that look like a credential are redacted everywhere; a title or version is hidden from messages about the receiver alone. */
export function headerSecret(header: string, value: string): Secret {
  return looksLikeCredential(header, value)
    ? new Secret(value, [value, value.replace(/^\S+ +/, '')])
    : new Secret(value, []);
}
