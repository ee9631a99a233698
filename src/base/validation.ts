import type { z } from 'zod';
import { cutText } from './text.ts';

const MAX_VALUE_CHARS_SHOWN = 60;

/**
 * Describes one zod issue: what the field must be, and what was found. Values are shown only for numbers and for fields
 * with a fixed set of words: any other value may be a secret in the wrong field. zod is imported as types alone, because
 * a process without a config file does not load it.
 */
export function describeIssue(issue: z.core.$ZodIssue, found: unknown): string {
  switch (issue.code) {
    case 'invalid_type':
      if (found === undefined) return `is missing (expected ${kindName(issue.expected)})`;
      return `expected ${kindName(issue.expected)}, found ${foundKind(found)}`;
    case 'invalid_value':
      return notOneOf(issue.values, found);
    case 'invalid_union':
      return 'options' in issue && issue.options !== undefined ? notOneOf(issue.options, found) : issue.message;
    case 'invalid_key':
      return issue.issues[0]?.message ?? issue.message;
    case 'too_small':
      if (found === '') return 'must not be empty';
      return `must be at least ${issue.minimum}${unit(issue.origin)}${foundNumber(found)}`;
    case 'too_big':
      return `must be at most ${issue.maximum}${unit(issue.origin)}${foundNumber(found)}`;
    default:
      return issue.message;
  }
}

/** `unknown key "x", did you mean "y"?`. */
export function describeUnknownKey(key: string, valid: readonly string[]): string {
  return `unknown key ${JSON.stringify(cutText(key, MAX_VALUE_CHARS_SHOWN))}${suggestion(key, valid)}`;
}

/** Message about the first key of `given` that is not valid; null: all keys are valid. */
export function unknownKey(given: object, valid: readonly string[]): string | null {
  const key = Object.keys(given).find((name) => !valid.includes(name));
  return key === undefined ? null : `${describeUnknownKey(key, valid)} (valid: ${valid.join(', ')})`;
}

/** `backends.local.headers["x y"]`: the path of a field, as in TOML. */
export function fieldPath(path: readonly PropertyKey[]): string {
  return path
    .map((part, index) => {
      if (typeof part === 'number') return `[${part}]`;
      const text = String(part);
      const key = /^[\w-]+$/.test(text) ? text : JSON.stringify(cutText(text, MAX_VALUE_CHARS_SHOWN));
      return index === 0 ? key : `.${key}`;
    })
    .join('');
}

function notOneOf(values: readonly unknown[], found: unknown): string {
  const shown = values.map((value) => JSON.stringify(value)).join(', ');
  const expected = values.length === 1 ? shown : `one of ${shown}`;
  if (found === undefined) return `is missing (expected ${expected})`;
  if (typeof found !== 'string') return `expected ${expected}, found ${foundKind(found)}`;
  const cut = JSON.stringify(cutText(found, MAX_VALUE_CHARS_SHOWN));
  return `expected ${expected}, found ${cut}${suggestion(found, values.map(String))}`;
}

function suggestion(found: string, valid: readonly string[]): string {
  const hint = didYouMean(found, valid);
  return hint === undefined ? '' : `, ${hint}`;
}

function kindName(expected: string): string {
  switch (expected) {
    case 'int':
      return 'a whole number';
    case 'object':
    case 'record':
      return 'a table';
    case 'array':
      return 'a list';
    default:
      return `a ${expected}`;
  }
}

function foundKind(found: unknown): string {
  if (found === null) return 'null';
  if (Array.isArray(found)) return 'a list';
  if (found instanceof Date) return 'a date';
  if (typeof found === 'number' && !Number.isInteger(found)) return 'a fraction';
  return typeof found === 'object' ? 'a table' : `a ${typeof found}`;
}

function foundNumber(found: unknown): string {
  return typeof found === 'number' ? `, found ${found}` : '';
}

function unit(origin: string): string {
  if (origin === 'string') return ' characters long';
  return origin === 'array' ? ' long' : '';
}

const LETTERS_PER_TYPO = 3;

/** The valid key nearest to an unknown key, for "did you mean" messages; undefined: none is near. */
export function nearestKey(unknown: string, valid: readonly string[]): string | undefined {
  const wanted = plain(unknown);
  if (wanted === '') return undefined;
  const allowed = Math.ceil(wanted.length / LETTERS_PER_TYPO);
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const key of valid) {
    const candidate = plain(key);
    // A missing part, such as `timeout` for `timeout_ms`, counts as near however long the part is.
    const isPart = candidate.startsWith(wanted) || wanted.startsWith(candidate);
    const distance = isPart ? Math.min(allowed, editDistance(wanted, candidate)) : editDistance(wanted, candidate);
    if (distance <= allowed && distance < bestDistance) {
      best = key;
      bestDistance = distance;
    }
  }
  return best;
}

/** `did you mean "timeout_ms"?`; undefined: no valid key is near. */
export function didYouMean(unknown: string, valid: readonly string[]): string | undefined {
  const nearest = nearestKey(unknown, valid);
  return nearest === undefined ? undefined : `did you mean ${JSON.stringify(nearest)}?`;
}

// `apiKey`, `api-key` and `api_key` compare as equal.
function plain(key: string): string {
  return key.toLowerCase().replaceAll(/[-_\s]/g, '');
}

/** Edit distance: insertions, deletions, replacements and swaps of neighbours count one each. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(at(last, column) + 1, at(current, column - 1) + 1, at(last, column - 1) + (same ? 0 : 1));
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) cost = Math.min(cost, at(beforeLast, column - 2) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}

/** Whether every JavaScript object has a property of this name, such as `constructor`. Users must not choose such names. */
export function isInheritedName(text: string): boolean {
  return text in Object.prototype;
}
