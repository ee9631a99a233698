/**
 * Building blocks of record schemas, and the texts of validation errors.
 *
 * Invariants
 * - An error names the field and the rule, and never repeats a value: values may be secrets.
 * - `null`, a missing field and the empty string all mean "not given": JSON and protobuf write it in different ways.
 * - A key such as `__proto__` is reported, not dropped.
 */
import { z } from 'zod';
import { isJsonObject } from '../../base/json.ts';
import { startOf } from '../../base/text.ts';
import type { Parsed, RecordIssue } from './record-kind.ts';

/** A longer field name is cut in messages. */
const SHOWN_NAME_CHARS = 80;

/** Limit on the issues and warnings of one record: more of them come from a file that is not a record at all. */
export const MAX_REPORTED = 100;

/** Returns what is wrong with a text, or null. */
type Check = (text: string) => string | null;

/** What a schema returns, deeply frozen. */
export type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

export type ReadFields<Shape> = { readonly shape: Shape } | { readonly issues: readonly RecordIssue[] };

/** Applies the schema to outside data. */
export function readFields<Schema extends z.ZodType>(schema: Schema, input: unknown): ReadFields<z.output<Schema>> {
  const result = schema.safeParse(input, { error: describe });
  if (result.success) return { shape: result.data };
  return { issues: result.error.issues.map((issue) => ({ path: pathText(issue.path), message: issue.message })) };
}

/** Paths of the fields in `input` that the schema does not have, at any depth. */
export function unknownFields(input: unknown, schema: z.core.$ZodType, path: readonly PropertyKey[] = []): string[] {
  const inner = unwrapped(schema);
  if (inner instanceof z.ZodArray && Array.isArray(input)) {
    return input.flatMap((item, index) => unknownFields(item, inner.element, [...path, index]));
  }
  if (!(inner instanceof z.ZodObject) || !isJsonObject(input)) return [];
  const known = (key: string) => Object.hasOwn(inner.shape, key);
  const keys = Object.keys(input);
  return [
    ...keys.filter((key) => !known(key)).map((key) => pathText([...path, key])),
    ...keys.filter(known).flatMap((key) => unknownFields(input[key], inner.shape[key], [...path, key])),
  ];
}

/** The schema without the wrappers of {@link optional}, {@link orDefault} and {@link list}. */
function unwrapped(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodPipe) return unwrapped(schema.out);
  return schema instanceof z.ZodNullable ? unwrapped(schema.unwrap()) : schema;
}

export function pathText(path: readonly PropertyKey[]): string {
  let text = '';
  for (const part of path) {
    const name = startOf(String(part), SHOWN_NAME_CHARS);
    if (typeof part === 'number') text += `[${part}]`;
    else if (/^[\w-]+$/.test(name)) text += text === '' ? name : `.${name}`;
    else text += `[${JSON.stringify(name)}]`;
  }
  return text;
}

export function checked(check: Check) {
  return z.string().superRefine((text, context) => {
    const message = check(text);
    if (message !== null) context.addIssue({ code: 'custom', message });
  });
}

/** A field that is null if it is not given. */
export function optional<T extends z.ZodType>(schema: T) {
  return z.preprocess((value) => (value === undefined || value === '' ? null : value), schema.nullable());
}

/** A field with a default, which must be valid input of the schema. */
export function orDefault<T extends z.ZodType>(schema: T, fallback: unknown) {
  return z.preprocess((value) => (value === undefined || value === null || value === '' ? fallback : value), schema);
}

/** A time in milliseconds since the Unix epoch, or a revision; 0 if it is not given. */
export const stamp = orDefault(z.int().min(0), 0);

/** The fields that the store sets. */
export const storeStamps = { updated_at_ms: stamp, mod_revision: stamp };

/** A field that is null or given, without the empty string as "not given". */
export const orNull = <T extends z.ZodType>(schema: T) => z.union([schema, z.null()]);

export function list<T extends z.ZodType>(item: T, maxItems: number) {
  return z.preprocess((value) => value ?? [], z.array(item).max(maxItems));
}

export function map<T extends z.ZodType>(keyProblem: Check, value: T, maxEntries: number) {
  const entries = z.record(z.string(), value);
  const readEntries = z.unknown().transform((input, context): z.output<typeof entries> => {
    const keys = isJsonObject(input) ? Object.keys(input) : [];
    if (keys.length > maxEntries) context.addIssue(`has ${keys.length} entries; the limit is ${maxEntries}`);
    const report = (message: string, path: PropertyKey[]) =>
      context.addIssue({ code: 'custom', message, path, input: undefined });
    for (const key of keys.slice(0, maxEntries)) {
      const message = keyProblem(key);
      if (message !== null) report(message, [key]);
    }
    const result = entries.safeParse(input, { error: describe });
    if (result.success) return result.data;
    for (const issue of result.error.issues) report(issue.message, issue.path);
    return z.NEVER;
  });
  // zod's own record silently drops a key called __proto__, so the keys are checked before zod reads them.
  return z.preprocess((input) => input ?? {}, readEntries);
}

type RawIssue = Parameters<z.core.$ZodErrorMap>[0];

function describe(issue: RawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is required' : `must be ${article(issue.expected)}`;
    case 'invalid_value':
      if (issue.input === undefined) return 'is required';
      return `must be ${issue.values.map((value) => JSON.stringify(value)).join(' or ')}`;
    case 'too_small':
      return `must be at least ${issue.minimum}`;
    case 'too_big':
      return issue.origin === 'array' ? `has more than ${issue.maximum} items` : `must be at most ${issue.maximum}`;
    default:
      return 'is not valid';
  }
}

function article(expected: string): string {
  if (expected === 'int') return 'a whole number';
  if (expected === 'record' || expected === 'object') return 'a table of fields';
  return expected === 'array' ? 'a list' : `a ${expected}`;
}

/** The parser of a kind that only the registry writes: the schema, then `check` for the rules between fields. */
export function parserOf<Schema extends z.ZodType<object>>(
  schema: Schema,
  check: (shape: z.output<Schema>) => readonly RecordIssue[] = () => [],
  freeze: (shape: z.output<Schema>) => z.output<Schema> = deepFreeze,
): (input: unknown) => Parsed<z.output<Schema>> {
  return (input) => {
    const read = readFields(schema, input);
    const issues = 'issues' in read ? read.issues : check(read.shape);
    if ('issues' in read || issues.length > 0) return { ok: false, issues: issues.slice(0, MAX_REPORTED) };
    return { ok: true, record: freeze(read.shape), warnings: [] };
  };
}

export function deepFreeze<T extends object>(value: T): T {
  for (const child of Object.values(value)) if (typeof child === 'object' && child !== null) deepFreeze(child);
  return Object.freeze(value);
}
