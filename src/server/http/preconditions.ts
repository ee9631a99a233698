import { HttpProblem } from './problem.ts';

export type WriteCondition =
  | { readonly kind: 'none' }
  | { readonly kind: 'exists' }
  | { readonly kind: 'absent' }
  | { readonly kind: 'at_revision'; readonly modRevision: number };

/** `If-Match` with a mod_revision, quoted or not, or `*`; `If-None-Match: *` for "only if there is none". */
export function writeCondition(headers: {
  readonly 'if-match'?: string | undefined;
  readonly 'if-none-match'?: string | undefined;
}): WriteCondition {
  const match = headers['if-match']?.trim();
  const noneMatch = headers['if-none-match']?.trim();
  if (match !== undefined && noneMatch !== undefined) throw malformed('If-Match and If-None-Match cannot be combined');
  if (noneMatch !== undefined) {
    if (noneMatch !== '*') throw malformed('If-None-Match must be *');
    return { kind: 'absent' };
  }
  if (match === undefined) return { kind: 'none' };
  if (match === '*') return { kind: 'exists' };
  const digits = /^"?([1-9]\d{0,15})"?$/.exec(match)?.[1];
  if (digits === undefined) throw malformed('If-Match must be a mod_revision, or *');
  return { kind: 'at_revision', modRevision: Number(digits) };
}

export function etag(modRevision: number): string {
  return `"${modRevision}"`;
}

function malformed(detail: string): HttpProblem {
  return new HttpProblem(400, 'invalid-precondition', detail);
}
