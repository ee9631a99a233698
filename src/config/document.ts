import { parse, TomlError } from 'smol-toml';
import { z } from 'zod';
import { describeIssue, describeUnknownKey, fieldPath, isInheritedName } from '../base/validation.ts';
import { isSecretReference, SECRET_REFERENCE_HELP } from '../server/secrets/secret.ts';
import { ConfigError } from './config-error.ts';
import type { ConfigFile } from './config-file.ts';

// Parsing and checking of config documents. The TOML parser and zod take longer to load than the rest of a config, so
// code that may find no config file imports this module on demand, and its tables are functions of `SchemaKit`.

const MAX_ISSUES_SHOWN = 10;

/** Invalid TOML. The message omits the source lines that the parser quotes, because they may hold a key. */
export class TomlTextError extends Error {
  readonly line: number;
  readonly column: number;

  constructor({ message, line, column }: { readonly message: string; readonly line: number; readonly column: number }) {
    super(`not valid TOML: ${message.split('\n', 1)[0]?.replace('Invalid TOML document: ', '')}`);
    this.name = 'TomlTextError';
    this.line = line;
    this.column = column;
  }
}

export function parseToml(text: string): unknown {
  try {
    return parse(text);
  } catch (error) {
    throw error instanceof TomlError ? new TomlTextError(error) : error;
  }
}

/** @throws ConfigError that names the file, the line and the column */
export function parseTomlFile({ path, text }: Pick<ConfigFile, 'path' | 'text'>): unknown {
  try {
    return parseToml(text);
  } catch (error) {
    if (!(error instanceof TomlTextError)) throw error;
    throw new ConfigError(`${path}:${error.line}:${error.column}: ${error.message}`);
  }
}

/** The checked document of a config file. @throws ConfigError that names every problem and its place */
export function readDocument<Schema extends z.ZodType>(file: ConfigFile, schema: Schema): z.output<Schema> {
  const checked = checkDocument(schema, file.path, parseTomlFile(file));
  if ('complaint' in checked) throw new ConfigError(checked.complaint);
  return checked.document;
}

export type CheckedDocument<Document> = { readonly document: Document } | { readonly complaint: string };

/** Checks a parsed document. `name` identifies it in the complaint. */
export function checkDocument<Schema extends z.ZodType>(
  schema: Schema,
  name: string,
  parsed: unknown,
): CheckedDocument<z.output<Schema>> {
  const checked = schema.safeParse(parsed);
  if (checked.success) return { document: checked.data };
  return { complaint: describeIssues(name, checked.error.issues, parsed) };
}

/** One line per problem of a document. */
function describeIssues(name: string, issues: readonly z.core.$ZodIssue[], input: unknown): string {
  const lines = issues.slice(0, MAX_ISSUES_SHOWN).map((issue) => {
    const where = issue.path.length === 0 ? '' : ` ${fieldPath(issue.path)}:`;
    return `${name}:${where} ${describeIssue(issue, valueAt(input, issue.path))}`;
  });
  if (issues.length > MAX_ISSUES_SHOWN) lines.push(`${name}: and ${issues.length - MAX_ISSUES_SHOWN} more`);
  return lines.join('\n');
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined),
    input,
  );
}

/** Object schema that rejects unknown keys and suggests the nearest valid key for each. */
export function strictTable<Shape extends z.core.$ZodShape>(shape: Shape): z.ZodObject<Shape, z.core.$strict> {
  const valid = Object.keys(shape);
  return z.strictObject(shape, {
    error: (issue) => {
      if (issue.code !== 'unrecognized_keys') return undefined;
      return `${issue.keys.map((key) => describeUnknownKey(key, valid)).join('; ')} (valid here: ${valid.join(', ')})`;
    },
  });
}

/** The optional fields of a table with one integer per limit, each in the range of its spec. */
export function limitFields<S extends Readonly<Record<string, { readonly min: number; readonly max: number }>>>(
  specs: S,
): { [Name in keyof S]: z.ZodOptional<z.ZodInt> } {
  const fields = Object.entries(specs).map(([name, { min, max }]) => [name, z.int().min(min).max(max).optional()]);
  return Object.fromEntries(fields);
}

/** Name of a namespace, a task or a pool: part of paths, NATS subjects and file names. */
export const plainName = z
  .string()
  .regex(
    /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/,
    'expected 1 to 63 characters of a-z, 0-9 and -, not starting or ending with -',
  )
  .refine((name) => !isInheritedName(name), 'must not be a name that every JavaScript object has');

const nonEmpty = z.string().min(1);
const secretReference = z.string().refine(isSecretReference, SECRET_REFERENCE_HELP);

// Members by name: the whole of zod as an object would bundle all of it, its 60 languages included.
const schemas = {
  array: z.array,
  boolean: z.boolean,
  discriminatedUnion: z.discriminatedUnion,
  enum: z.enum,
  int: z.int,
  literal: z.literal,
  number: z.number,
  record: z.record,
  string: z.string,
  unknown: z.unknown,
};

export const schemaKit = { z: schemas, strictTable, limitFields, plainName, nonEmpty, secretReference };
/** Parts of config schemas. Passed to the tables of a config file, so that only a process with a file loads zod. */
export type SchemaKit = typeof schemaKit;
