/**
 * `${ENV:NAME}` and `${ENV:NAME:-default}` in env, header and url values of records; a default ends at the first `}`.
 * They are resolved only when a connection is made.
 */
const referencePattern = /\$\{ENV:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g;
const referenceNamePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** The text of a reference to a variable. */
export function referenceTo(name: string): string {
  return `\${ENV:${name}}`;
}

export interface ReferenceLookup {
  /** Whether records may refer to this variable at all. */
  allows(name: string): boolean;
  /** Undefined: the variable is not set. An empty variable is set. */
  get(name: string): string | undefined;
}

type Resolution = string | { readonly missing: string } | { readonly refused: string };

/** Resolves all references of `value`, or names the first that cannot be resolved. A default does not hide a refusal. */
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

/** The literal text around the references of a value, and the defaults. */
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

/** Whether a malformed reference would reach the server as literal text. */
export function hasBrokenReference(value: string): boolean {
  return literalParts(value).some((part) => part.includes('${ENV:'));
}

/** The fields of a record that may hold references. */
interface ReferenceFields {
  readonly stdio: { readonly env: Readonly<Record<string, string>> } | null;
  readonly http: {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly auth_ref: string | null;
    readonly oauth: { readonly client_secret: string | null; readonly private_key: string | null } | null;
  } | null;
}

export function referencedNames({ stdio, http }: ReferenceFields): ReadonlySet<string> {
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

type AuthRef = { readonly kind: 'env'; readonly name: string } | { readonly kind: 'file'; readonly path: string };

export function parseAuthRef(text: string): AuthRef | null {
  if (text.startsWith('env:')) {
    const name = text.slice('env:'.length);
    return isReferenceName(name) ? { kind: 'env', name } : null;
  }
  if (!text.startsWith('file:')) return null;
  const path = text.slice('file:'.length);
  return path === '' || path.includes('\0') ? null : { kind: 'file', path };
}

/**
 * Which variables and files records may refer to on this node. `listed`: records come from a registry, which others
 * write to. `user_owned`: records are files of the user who runs the process.
 */
export interface ReferencePolicy {
  readonly mode: 'listed' | 'user_owned';
  /** Variables that the config allows in addition. A model key is allowed only if it is listed here. */
  readonly names: readonly string[];
  /** Files, or directories when they end with `/`, that `auth_ref = "file:…"` may name. Absolute. */
  readonly paths: readonly string[];
  /** Variables with the api_key of configured backends. */
  readonly backendKeyNames: readonly string[];
}

const OPEN_VARIABLE_PREFIX = 'MCP_';

/** The usual names of model provider keys. */
export const modelKeyNames: readonly string[] = [
  'OPENAI_API_KEY',
  'OPENAI_ADMIN_KEY',
  'AZURE_OPENAI_API_KEY',
  'ANTHROPIC_API_KEY',
  'ANTHROPIC_AUTH_TOKEN',
  'GEMINI_API_KEY',
  'GOOGLE_API_KEY',
  'MISTRAL_API_KEY',
  'GROQ_API_KEY',
  'DEEPSEEK_API_KEY',
  'OPENROUTER_API_KEY',
  'TOGETHER_API_KEY',
  'XAI_API_KEY',
  'COHERE_API_KEY',
  'DASHSCOPE_API_KEY',
  'MOONSHOT_API_KEY',
];

export function mayReferToVariable(name: string, policy: ReferencePolicy): boolean {
  if (policy.names.includes(name)) return true;
  if (isModelKey(name, policy)) return false;
  return policy.mode === 'user_owned' || name.startsWith(OPEN_VARIABLE_PREFIX);
}

/** Decides by the path as written. If it may be a symbolic link, check the real path as well before reading. */
export function mayReferToFile(path: string, policy: ReferencePolicy): boolean {
  if (policy.mode === 'user_owned') return true;
  if (!path.startsWith('/') || path.split('/').some((part) => part === '.' || part === '..')) return false;
  return policy.paths.some((allowed) =>
    allowed.endsWith('/') ? path.length > allowed.length && path.startsWith(allowed) : path === allowed,
  );
}

// Some systems ignore the case of variable names, so the comparison does too.
function isModelKey(name: string, policy: ReferencePolicy): boolean {
  const upper = name.toUpperCase();
  return modelKeyNames.includes(upper) || policy.backendKeyNames.some((key) => key.toUpperCase() === upper);
}
