import { isJsonObject } from '../../../base/json.ts';

const MISSING_CLIENT_CAPABILITY = -32021;
const URL_ELICITATION_REQUIRED = -32042;
const MAX_ADDRESSES = 3;

/** What has to be done before the call can work: the message alone often does not say. */
export function whatHelps(code: number, data: unknown): string {
  if (code === MISSING_CLIENT_CAPABILITY) return ' (client_features of the server lists what it may request)';
  if (code !== URL_ELICITATION_REQUIRED || !isJsonObject(data) || !Array.isArray(data.elicitations)) return '';
  const addresses = data.elicitations.flatMap((asked) => {
    const url = isJsonObject(asked) && typeof asked.url === 'string' ? URL.parse(asked.url) : null;
    return url !== null && /^https?:$/.test(url.protocol) ? [url.href] : [];
  });
  return addresses.length === 0 ? '' : ` (open first: ${addresses.slice(0, MAX_ADDRESSES).join(' ')})`;
}
