import { posix } from 'node:path';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { compilePattern } from './pattern.ts';

/** What one place in the arguments must look like. Every condition that is given must hold. */
export interface ArgumentMatcher {
  /** A JSON pointer; `*` in it stands for every entry of a list or object. */
  readonly path: string;
  readonly exists?: boolean;
  readonly equals?: JsonValue;
  readonly one_of?: readonly JsonValue[];
  readonly prefix?: string;
  /** `*` and `?` as in patterns of tool names. */
  readonly pattern?: string;
  /** An absolute directory: the text is an absolute path that lies in it once `.` and `..` are resolved. */
  readonly inside?: string;
  readonly at_least?: number;
  readonly at_most?: number;
}

/**
 * Whether the arguments are as the matcher says. Where the path reaches several values, `every` asks for all of them
 * (and at least one), otherwise one is enough. A value of another type than the condition speaks of does not match.
 */
export function matchesArguments(matcher: ArgumentMatcher, args: JsonObject, every: boolean): boolean {
  const values = valuesAt(args, pointerParts(matcher.path));
  if (matcher.exists === false) return values.length === 0;
  if (values.length === 0) return false;
  const holds = (value: JsonValue) => conditionsOf(matcher).every((condition) => condition(value));
  return every ? values.every(holds) : values.some(holds);
}

/** What is wrong with a pointer, or null. */
export function pointerProblem(path: string): string | null {
  if (!path.startsWith('/')) return 'must be a JSON pointer that begins with "/", for example "/path"';
  return /~(?![01])/.test(path) ? 'has a "~" that is neither "~0" (for "~") nor "~1" (for "/")' : null;
}

const WILDCARD = '*';

function pointerParts(path: string): readonly string[] {
  return path.split('/').slice(1);
}

function valuesAt(root: JsonValue, parts: readonly string[]): JsonValue[] {
  let found: JsonValue[] = [root];
  for (const part of parts) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    found = found.flatMap((value) => (part === WILDCARD ? entriesOf(value) : entryOf(value, key)));
  }
  return found;
}

function entriesOf(value: JsonValue): JsonValue[] {
  if (Array.isArray(value)) return value;
  return isJsonObject(value) ? Object.values(value) : [];
}

function entryOf(value: JsonValue, key: string): JsonValue[] {
  if (Array.isArray(value))
    return /^(?:0|[1-9]\d*)$/.test(key) && Number(key) < value.length ? value.slice(Number(key), Number(key) + 1) : [];
  return isJsonObject(value) && Object.hasOwn(value, key) ? [value[key] as JsonValue] : [];
}

type Condition = (value: JsonValue) => boolean;

// Rules live as long as a run and are asked at every call: each is compiled once.
const compiled = new WeakMap<ArgumentMatcher, readonly Condition[]>();

function conditionsOf(matcher: ArgumentMatcher): readonly Condition[] {
  const known = compiled.get(matcher);
  if (known) return known;
  const { equals, one_of: oneOf, prefix, pattern, inside, at_least: least, at_most: most } = matcher;
  const conditions: Condition[] = [];
  if (equals !== undefined) conditions.push(sameAs(equals));
  if (oneOf !== undefined) {
    const wanted = oneOf.map(sameAs);
    conditions.push((value) => wanted.some((same) => same(value)));
  }
  if (prefix !== undefined) conditions.push((value) => typeof value === 'string' && value.startsWith(prefix));
  if (pattern !== undefined) {
    const matches = compilePattern(pattern);
    conditions.push((value) => typeof value === 'string' && matches(value));
  }
  if (inside !== undefined) conditions.push(liesIn(inside));
  if (least !== undefined) conditions.push((value) => typeof value === 'number' && value >= least);
  if (most !== undefined) conditions.push((value) => typeof value === 'number' && value <= most);
  compiled.set(matcher, conditions);
  return conditions;
}

function sameAs(wanted: JsonValue): Condition {
  if (typeof wanted !== 'object' || wanted === null) return (value) => value === wanted;
  const text = canonicalJson(wanted);
  return (value) => typeof value === 'object' && value !== null && canonicalJson(value) === text;
}

/** By the letters of the path alone: where a link leads is known to the server only. */
function liesIn(directory: string): Condition {
  const root = posix.normalize(`${directory}/`);
  return (value) => {
    if (typeof value !== 'string' || !value.startsWith('/') || value.includes('\0')) return false;
    return posix.normalize(`${value}/`).startsWith(root);
  };
}
