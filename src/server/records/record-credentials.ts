import { splitOnce } from '../../base/split-once.ts';
import { hasReference, literalParts } from '../secrets/references.ts';

// A guess, for a warning only. It errs towards warning where a name says "secret", and towards silence elsewhere.

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

/** Whether the value of a variable, header or query parameter called `name` looks like a credential in clear. */
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

/** Arguments are visible to every process of the machine. Returns the indexes of those that look like credentials. */
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
  // A path is made of words; a key is not.
  return !text.includes('/') && entropyBits(text) >= OPAQUE_MIN_ENTROPY_BITS;
}

function entropyBits(text: string): number {
  const counts = new Map<string, number>();
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values()) bits -= (count / text.length) * Math.log2(count / text.length);
  return bits;
}
