import { isHeaderName, isHeaderValue } from '../../base/http-header.ts';
import { textProblem } from '../../base/text-problem.ts';
import {
  hasBrokenReference,
  hasReference,
  isReferenceName,
  parseAuthRef,
  referenceTo,
  replaceReferences,
} from '../secrets/references.ts';
import { SECRET_REFERENCE_HELP } from '../secrets/secret.ts';
import { recordLimits } from './record-limits.ts';

// Checks of single values. Each returns what is wrong in words that never repeat the value, or null. Those of urls
// and headers are asked again on the node, after references were resolved.

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

/** Unlike other texts an argument may be empty and may hold line breaks: it can be a script. */
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

/** A url may hold references; its scheme and host are checked as far as they are known. */
export function urlProblem(url: string): string | null {
  const shape = textProblem(url, recordLimits.urlChars) ?? referenceProblem(url);
  if (shape !== null) return shape;
  if (url.startsWith('${ENV:')) return null;
  if (!urlScheme.test(url)) return 'must be an absolute url that starts with http:// or https://';
  // "1" may stand in any place of a url, the port included.
  return URL.canParse(replaceReferences(url, '1')) ? null : 'is not a valid url';
}

/** Of an authorization server, or of a client's description: no reference, and nothing that must be kept secret. */
export function plainUrlProblem(text: string): string | null {
  const shape = textProblem(text, recordLimits.urlChars);
  if (shape !== null) return shape;
  const url = URL.parse(text);
  if (url === null || hasReference(text)) return 'must be an absolute url, without references';
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or password';
  if (url.protocol === 'https:' || (url.protocol === 'http:' && isLoopbackName(url.hostname))) return null;
  return 'must start with https:// (http:// is allowed on loopback only)';
}

/** A place on the server's machine: the only kind that servers know. */
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

/** As far as it is known: references may bring one. */
export function urlHasUser(url: string): boolean {
  const parsed = URL.parse(replaceReferences(url, '1'));
  return parsed !== null && (parsed.username !== '' || parsed.password !== '');
}

/** Of OAuth: visible ASCII without quotes and backslashes. */
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
