import { isHeaderName, isHeaderValue, textProblem } from '../../base/text.ts';
import { isInheritedName } from '../../base/validation.ts';
import { patternLimits } from '../../runtime/port/policy-layers.ts';
import {
  hasBrokenReference,
  hasReference,
  isReferenceName,
  parseAuthRef,
  referenceTo,
  replaceReferences,
} from '../secrets/references.ts';
import { SECRET_REFERENCE_HELP } from '../secrets/secret.ts';

/** Pool of tasks and nodes that name none. Here, because a node's config is read without loading zod. */
export const DEFAULT_POOL = 'default';

// Checks of single values. Each returns what is wrong without repeating the value, or null. The node repeats the checks of
// URLs and headers after it resolved references.

const serverIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

export const serverIdRule =
  '1 to 64 characters: letters, digits, ".", "_" and "-", starting with a letter or digit, and not a name that every ' +
  'JavaScript object has, such as "constructor"';

export function isServerId(text: string): boolean {
  return serverIdPattern.test(text) && !isInheritedName(text);
}

const prefixPattern = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const urlScheme = /^https?:\/\//i;

/** Headers that the HTTP client itself owns; setting them breaks the request. */
const clientHeaders = new Set([
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Own keys of this name vanish or change the prototype when an object is copied carelessly. */
const unsafeKey = '__proto__';

export function prefixProblem(text: string): string | null {
  if (text.length > recordLimits.prefixChars) return `has more than ${recordLimits.prefixChars} characters`;
  if (prefixPattern.test(text)) return null;
  return 'must contain only letters, digits, ".", "_" and "-", and start with a letter or digit';
}

/** Unlike other texts an argument may be empty and may contain line breaks: it can be a script. */
export function argumentProblem(text: string): string | null {
  if (text.length > recordLimits.argChars) return `has more than ${recordLimits.argChars} characters`;
  return text.includes('\0') ? 'must not contain NUL' : null;
}

export function variableNameProblem(name: string): string | null {
  if (name.length > recordLimits.envNameChars) return `has more than ${recordLimits.envNameChars} characters`;
  return isReferenceName(name) ? null : 'must be a variable name: letters, digits and "_", not starting with a digit';
}

export function authRefProblem(text: string): string | null {
  const shape = textProblem(text, recordLimits.pathChars);
  if (shape !== null) return shape;
  return parseAuthRef(text) === null ? 'must be env:NAME or file:PATH' : null;
}

export function envNameProblem(name: string): string | null {
  if (name === unsafeKey) return `"${unsafeKey}" cannot be used as a name`;
  if (name.includes('=')) return 'a variable name must not contain "="';
  return textProblem(name, recordLimits.envNameChars);
}

export function envValueProblem(value: string): string | null {
  if (value.length > recordLimits.valueChars) return `has more than ${recordLimits.valueChars} characters`;
  if (value.includes('\0')) return 'must not contain NUL';
  return referenceProblem(value);
}

export function headerNameProblem(name: string): string | null {
  if (name === unsafeKey) return `"${unsafeKey}" cannot be used as a name`;
  if (name.length > recordLimits.headerNameChars)
    return `the name has more than ${recordLimits.headerNameChars} characters`;
  if (!isHeaderName(name)) return 'is not a valid header name';
  return clientHeaders.has(name.toLowerCase()) ? 'is set by the HTTP client and cannot be configured' : null;
}

export function headerValueProblem(value: string): string | null {
  if (value.length > recordLimits.valueChars) return `has more than ${recordLimits.valueChars} characters`;
  if (/[\u0100-\uffff]/.test(value)) return 'must not contain characters beyond Latin-1';
  if (!isHeaderValue(value)) return 'must not contain control characters or line breaks';
  return referenceProblem(value);
}

/** A URL may hold references; scheme and host are checked as far as they are known. */
export function urlProblem(url: string): string | null {
  const shape = textProblem(url, recordLimits.urlChars) ?? referenceProblem(url);
  if (shape !== null) return shape;
  if (url.startsWith('${ENV:')) return null;
  if (!urlScheme.test(url)) return 'must be an absolute url that starts with http:// or https://';
  // "1" is valid in every part of a URL, including the port.
  return URL.canParse(replaceReferences(url, '1')) ? null : 'is not a valid url';
}

/** URL of an authorization server or of client metadata: no references and no credentials. */
export function plainUrlProblem(text: string): string | null {
  const shape = textProblem(text, recordLimits.urlChars);
  if (shape !== null) return shape;
  const url = URL.parse(text);
  if (url === null || hasReference(text)) return 'must be an absolute url, without references';
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or password';
  if (url.protocol === 'https:' || (url.protocol === 'http:' && isLoopbackName(url.hostname))) return null;
  return 'must start with https:// (http:// is allowed on loopback only)';
}

/** URI of an MCP root: a path on the server's machine. */
export function rootUriProblem(text: string): string | null {
  const shape = textProblem(text, recordLimits.urlChars);
  if (shape !== null) return shape;
  if (hasReference(text) || URL.parse(text)?.protocol !== 'file:') return 'must be a file:// url, without references';
  return null;
}

export function toolNameProblem(name: string): string | null {
  if (name === unsafeKey) return `"${unsafeKey}" cannot be used as a name`;
  return textProblem(name, recordLimits.toolNameChars);
}

export function sha256Problem(text: string): string | null {
  return /^[0-9a-f]{64}$/.test(text) ? null : 'must be a sha256: 64 lowercase hex digits';
}

/** Whether the URL names a user, as far as known: a reference may add one. */
export function urlHasUser(url: string): boolean {
  const parsed = URL.parse(replaceReferences(url, '1'));
  return parsed !== null && (parsed.username !== '' || parsed.password !== '');
}

/** An OAuth scope: visible ASCII without quotes and backslashes. */
export function scopeProblem(text: string): string | null {
  if (text.length > recordLimits.scopeChars) return `has more than ${recordLimits.scopeChars} characters`;
  return /^[!#-[\]-~]+$/.test(text) ? null : 'must be one scope: no spaces, quotes or backslashes';
}

export function secretReferenceProblem(text: string): string | null {
  return authRefProblem(text) === null ? null : SECRET_REFERENCE_HELP;
}

function isLoopbackName(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127(?:\.\d+){3}$/.test(host);
}

export function referenceProblem(value: string): string | null {
  if (!hasBrokenReference(value)) return null;
  return `has a malformed reference; write ${referenceTo('NAME')} or ${referenceTo('NAME:-default')}`;
}

const KIB = 1024;
const MIB = 1024 * KIB;

export interface BudgetRange {
  readonly default: number;
  readonly min: number;
  readonly max: number;
}

/** A missing or zero budget means its default. */
export const budgetRanges = {
  tool_timeout_ms: { default: 8_000, min: 100, max: 3_600_000 },
  max_tool_timeout_ms: { default: 0, min: 100, max: 3_600_000 },
  max_concurrency: { default: 8, min: 1, max: 1_024 },
  max_tool_output_bytes: { default: 64 * KIB, min: 1, max: 10 * MIB },
  connect_timeout_ms: { default: 60_000, min: 100, max: 600_000 },
} as const satisfies Record<string, BudgetRange>;

/** Limits of a record: far above any real server, so that one record cannot fill a store or a message. */
export const recordLimits = {
  /** The whole record as compact JSON. */
  recordBytes: 64 * KIB,
  displayNameChars: 128,
  prefixChars: 128,
  pathChars: 4_096,
  args: 128,
  argChars: 16 * KIB,
  envEntries: 128,
  envNameChars: 256,
  valueChars: 16 * KIB,
  headers: 64,
  headerNameChars: 256,
  urlChars: 4_096,
  clientIdChars: 1_024,
  scopes: 64,
  scopeChars: 256,
  ...patternLimits,
  tags: 64,
  tagChars: 64,
  sandboxPaths: 64,
  pins: 512,
  toolNameChars: 256,
  roots: 64,
  rootNameChars: 128,
} as const;
