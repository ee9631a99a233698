import { splitOnce } from '../../base/split-once.ts';
import { credentialArguments, looksLikeCredential } from './record-credentials.ts';

/** Stands for literal text of a record that may be a credential. */
export const MASK = '********';

const reference = /(\$\{ENV:[^}]*\})/;
const referenceParts = /^(\$\{ENV:\w+)(?::-(.*))?\}$/s;
const authScheme = /^(?:bearer|basic|token|digest) +$/i;

/** References stay readable, literal text does not. */
export function maskValue(value: string): string {
  const parts = value.split(reference);
  return parts
    .map((part, index) => {
      const isReference = index % 2 === 1;
      if (isReference) return maskDefault(part);
      const isScheme = authScheme.test(part) && index + 1 < parts.length;
      return part === '' || isScheme ? part : MASK;
    })
    .join('');
}

/** What stands in for a variable that is not set is a setting, unless it looks like a key. */
function maskDefault(text: string): string {
  const [, head = '', fallback = ''] = referenceParts.exec(text) ?? [];
  return looksLikeCredential('', fallback) ? `${head}:-${MASK}}` : text;
}

const PLACEHOLDER_START = 0xe000;
const authority = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#]*)@/i;

/** Where a server is may be seen; a password in its address, and a key among its parameters, may not. */
export function maskUrl(url: string): string {
  // A reference may hold the very characters that divide a url.
  const references: string[] = [];
  const flat = url
    .split(reference)
    .map((part, index) => (index % 2 === 0 ? part : String.fromCharCode(PLACEHOLDER_START + references.push(part))))
    .join('');
  const whole = (text: string) =>
    text.replaceAll(/[\ue001-\uf8ff]/g, (mark) => references[mark.charCodeAt(0) - PLACEHOLDER_START - 1] ?? mark);
  const shown = flat.replace(authority, (_all, scheme: string, user: string) => `${scheme}${maskUser(user, whole)}@`);
  const [address, query] = splitOnce(shown, '?');
  if (query === null) return whole(address);
  const [parameters, fragment] = splitOnce(query, '#');
  const pairs = parameters.split('&').map((pair) => maskParameter(pair, whole));
  return `${whole(address)}?${pairs.join('&')}${fragment === null ? '' : `#${whole(fragment)}`}`;
}

function maskUser(text: string, whole: (text: string) => string): string {
  const [user, password] = splitOnce(text, ':');
  return password === null ? maskValue(whole(user)) : `${whole(user)}:${maskValue(whole(password))}`;
}

function maskParameter(pair: string, whole: (text: string) => string): string {
  const [name, value] = splitOnce(pair, '=');
  if (value === null || !looksLikeCredential(whole(name), whole(value))) return whole(pair);
  return `${whole(name)}=${maskValue(whole(value))}`;
}

/** The arguments with those hidden that a record is warned about. */
export function maskArguments(args: readonly string[]): string[] {
  const hidden = new Set(credentialArguments(args));
  return args.map((argument, index) => {
    if (!hidden.has(index)) return argument;
    const [flag, value] = splitOnce(argument, '=');
    return argument.startsWith('-') && value !== null ? `${flag}=${MASK}` : MASK;
  });
}
