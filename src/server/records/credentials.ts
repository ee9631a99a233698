import { splitOnce } from '../../base/text.ts';
import { hasReference, literalParts } from '../secrets/references.ts';

// Detection is a heuristic, used for warnings and masking. It prefers false positives where a name says "secret", and false
// negatives elsewhere.

const secretName =
  /(?:^|[_\-.])(?:(?:token|pwd|apikey|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|authorization|auth|cookie)$|(?:secret|password|passwd)(?:$|[_\-.]))/i;
const secretFlag = /^--?[a-z-]*(?:token|secret|password|passwd|api-?key|access-?key|private-?key|credentials?)$/i;
const knownPrefix =
  /(?:^|[^A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{8,}|gh[opsru]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{8,}|AKIA[A-Z0-9]{12,}|AIza[\w-]{20,}|npm_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}\.)/;
const privateKeyBlock = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;
const authScheme = /^(?:bearer|basic|token|digest|apikey)\b\s*/i;
const urlAuthority = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i;
const passwordInAuthority = /^[^:@]*:[^@]/;
const opaqueText = /^[A-Za-z0-9+/_=-]{32,}$/;

const OPAQUE_MIN_ENTROPY_BITS = 3.5;

/** Whether the value of a variable, header or query parameter called `name` looks like a plaintext credential. */
export function looksLikeCredential(name: string, value: string): boolean {
  const literals = literalParts(value).map((part) => part.trim().replace(authScheme, ''));
  if (literals.some(looksSecretByItself)) return true;
  return secretName.test(name) && !hasReference(value) && literals.some((part) => part !== '');
}

export function urlHasCredential(url: string): boolean {
  const authority = urlAuthority.exec(literalParts(url).join(''))?.[1] ?? '';
  if (authority.includes('@') && passwordInAuthority.test(authority)) return true;
  const query = url.split('?', 2)[1] ?? '';
  return query.split('&').some((pair) => {
    const [name = '', value = ''] = pair.split('=', 2);
    return value !== '' && looksLikeCredential(name, value);
  });
}

/** Indexes of arguments that look like credentials: arguments are visible to every process of the machine. */
export function credentialArguments(args: readonly string[]): number[] {
  return args.flatMap((argument, index) => {
    const [flag, value] = splitOnce(argument, '=');
    const given = value !== null && secretFlag.test(flag) && value !== '';
    const follows = index > 0 && secretFlag.test(args[index - 1] ?? '') && !argument.startsWith('-');
    const suspicious = given || follows || looksSecretByItself(argument) || urlHasCredential(argument);
    return suspicious ? [index] : [];
  });
}

function looksSecretByItself(text: string): boolean {
  if (knownPrefix.test(text) || privateKeyBlock.test(text)) return true;
  if (!opaqueText.test(text) || !/[0-9]/.test(text) || !/[A-Za-z]/.test(text)) return false;
  // A path consists of words; a key does not.
  return !text.includes('/') && entropyBits(text) >= OPAQUE_MIN_ENTROPY_BITS;
}

function entropyBits(text: string): number {
  const counts = new Map<string, number>();
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values()) bits -= (count / text.length) * Math.log2(count / text.length);
  return bits;
}

/** Replaces literal text of a record that may be a credential. */
export const MASK = '********';

const reference = /(\$\{ENV:[^}]*\})/;
const referenceParts = /^(\$\{ENV:\w+)(?::-(.*))?\}$/s;
const schemeBefore = /^(?:bearer|basic|token|digest) +$/i;

/** Masks literal text; references stay readable. */
export function maskValue(value: string): string {
  const parts = value.split(reference);
  return parts
    .map((part, index) => {
      const isReference = index % 2 === 1;
      if (isReference) return maskDefault(part);
      const isScheme = schemeBefore.test(part) && index + 1 < parts.length;
      return part === '' || isScheme ? part : MASK;
    })
    .join('');
}

/** The default of a reference is a setting, unless it looks like a credential. */
function maskDefault(text: string): string {
  const [, head = '', fallback = ''] = referenceParts.exec(text) ?? [];
  return looksLikeCredential('', fallback) ? `${head}:-${MASK}}` : text;
}

const PLACEHOLDER_START = 0xe000;
const authority = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#]*)@/i;

/** Masks a password in the authority and credentials in the query; the address stays readable. */
export function maskUrl(url: string): string {
  // References are replaced by placeholders first: they may contain the characters that separate the parts of a URL.
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

/** Masks the arguments that cause a warning. */
export function maskArguments(args: readonly string[]): string[] {
  const hidden = new Set(credentialArguments(args));
  return args.map((argument, index) => {
    if (!hidden.has(index)) return argument;
    const [flag, value] = splitOnce(argument, '=');
    return argument.startsWith('-') && value !== null ? `${flag}=${MASK}` : MASK;
  });
}
