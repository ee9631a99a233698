/**
 * `${ENV:NAME}` and `${ENV:NAME:-default}` in env, header and url values. They are resolved where the connection is
 * made and nowhere else; a default ends at the first `}`.
 */
const referencePattern = /\$\{ENV:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g;
const referenceNamePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** How the reference to a variable is written. */
export function referenceTo(name: string): string {
  return `\${ENV:${name}}`;
}

export interface ReferenceLookup {
  /** Whether records may refer to this variable at all. */
  allows(name: string): boolean;
  /** Undefined only when the variable is not set: set but empty counts as set. */
  get(name: string): string | undefined;
}

export type Resolution = string | { readonly missing: string } | { readonly refused: string };

/** Resolves every reference of `value`, or names the first one that cannot be. A default does not hide a refusal. */
export function resolveReferences(value: string, lookup: ReferenceLookup): Resolution {
  let resolved = '';
  let end = 0;
  for (const match of value.matchAll(referencePattern)) {
    const name = match[1] as string;
    if (!lookup.allows(name)) return { refused: name };
    const text = lookup.get(name) ?? match[2];
    if (text === undefined) return { missing: name };
    resolved += value.slice(end, match.index) + text;
    end = match.index + match[0].length;
  }
  return resolved + value.slice(end);
}

export function isReferenceName(name: string): boolean {
  return referenceNamePattern.test(name);
}

export function hasReference(value: string): boolean {
  return value.search(referencePattern) !== -1;
}

/** What is left of a value without its references: its literal text, their defaults included. */
export function literalParts(value: string): string[] {
  const parts: string[] = [];
  let end = 0;
  for (const match of value.matchAll(referencePattern)) {
    parts.push(value.slice(end, match.index));
    if (match[2] !== undefined) parts.push(match[2]);
    end = match.index + match[0].length;
  }
  parts.push(value.slice(end));
  return parts.filter((part) => part !== '');
}

/** The value with each reference replaced, for checks of the text around references. */
export function replaceReferences(value: string, replacement: string): string {
  return value.replace(referencePattern, (_all, _name, fallback?: string) => fallback || replacement);
}

/** A `${ENV:` that is not a well-formed reference would reach the server as it stands. */
export function hasBrokenReference(value: string): boolean {
  return literalParts(value).some((part) => part.includes('${ENV:'));
}

/** What of a record may hold references. */
export interface Referring {
  readonly stdio: { readonly env: Readonly<Record<string, string>> } | null;
  readonly http: {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly auth_ref: string | null;
    readonly oauth: { readonly client_secret: string | null; readonly private_key: string | null } | null;
  } | null;
}

export function referencedNames({ stdio, http }: Referring): ReadonlySet<string> {
  const values = [...Object.values(stdio?.env ?? {}), ...Object.values(http?.headers ?? {})];
  if (http !== null) values.push(http.url);
  const names = new Set<string>();
  for (const value of values) for (const match of value.matchAll(referencePattern)) names.add(match[1] as string);
  for (const text of [http?.auth_ref, http?.oauth?.client_secret, http?.oauth?.private_key]) {
    const secret = text == null ? null : parseAuthRef(text);
    if (secret?.kind === 'env') names.add(secret.name);
  }
  return names;
}

export type AuthRef =
  | { readonly kind: 'env'; readonly name: string }
  | { readonly kind: 'file'; readonly path: string };

export function parseAuthRef(text: string): AuthRef | null {
  if (text.startsWith('env:')) {
    const name = text.slice('env:'.length);
    return isReferenceName(name) ? { kind: 'env', name } : null;
  }
  if (!text.startsWith('file:')) return null;
  const path = text.slice('file:'.length);
  return path === '' || path.includes('\0') ? null : { kind: 'file', path };
}
