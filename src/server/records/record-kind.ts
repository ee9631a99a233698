import { isDeepStrictEqual } from 'node:util';
import { canonicalJson, type JsonValue } from '../../base/json.ts';

/** The fields that the store itself writes into every record. */
export interface StoreStamps {
  readonly updated_at_ms: number;
  /** The revision of its kind at which this record last changed; 0 outside a store. */
  readonly mod_revision: number;
}

/** What is wrong with a record and where: `stdio.env.TOKEN`, `allowed_tools[2]`. Never holds a value of the record. */
export interface RecordIssue {
  readonly path: string;
  readonly message: string;
}

export interface ParseOptions {
  /** Unknown fields are issues instead of warnings. */
  readonly strict: boolean;
  /** The record comes from a file, where shorthand fields are allowed. */
  readonly fromFile?: boolean;
}

export type Parsed<R> =
  | { readonly ok: true; readonly record: R; readonly warnings: readonly RecordIssue[] }
  | { readonly ok: false; readonly issues: readonly RecordIssue[] };

/** A kind of record in the registry. Each kind has its own revisions, change log and watchers. `kinds.ts` lists all. */
export interface RecordKind<R extends StoreStamps> {
  /** Name of the kind in the store and in messages. */
  readonly name: 'server' | 'profile' | 'approval' | 'pin' | 'token' | 'token_use' | 'task' | 'task_revision' | 'stop';
  /** The field that holds the id. */
  readonly idField: string & keyof R;
  readonly isId: (text: string) => boolean;
  /** Validates outside data and completes it with defaults. */
  readonly parse: (input: unknown, options: ParseOptions) => Parsed<R>;
  /** Advice to the operator for a stored record that cannot be read. */
  readonly repair: (id: string) => string;
}

export function idOf<R extends StoreStamps>(kind: RecordKind<R>, record: R): string {
  return String(record[kind.idField]);
}

/**
 * One step of a kind of record from `prevRevision` to `revision`. Revisions may skip numbers, so a reader detects a missed
 * event by `prevRevision` alone. Several changes may be combined in one event; each id then appears once.
 */
export interface RegistryEvent<R> {
  /** Random id of the store. Revisions of different epochs cannot be compared. */
  readonly epoch: string;
  readonly revision: number;
  readonly prevRevision: number;
  readonly upserts: readonly R[];
  readonly deletes: readonly string[];
}

/** All records of a kind at one revision, ordered by id. */
export interface RegistryListing<R> {
  readonly epoch: string;
  readonly revision: number;
  readonly records: readonly R[];
}

/** The content of a record as canonical JSON, without the fields that the store writes. */
export function contentKey(record: StoreStamps): string {
  return canonicalJson(contentOf(record) as unknown as JsonValue);
}

/** Compares values instead of texts: two texts for every change of a registry are more garbage than the change. */
export function sameContent<R extends StoreStamps>(a: R, b: R): boolean {
  return a === b || isDeepStrictEqual(contentOf(a), contentOf(b));
}

function contentOf({ updated_at_ms: _updated, mod_revision: _revision, ...content }: StoreStamps) {
  return content;
}

/** The fields of a server that a connection depends on. */
type ConnectionField = 'transport' | 'stdio' | 'http' | 'protocol' | 'sandbox' | 'client_features';

/** The connection settings of a server as text: when they change, an open connection must be replaced. */
export function connectionKey(server: Readonly<Record<ConnectionField, unknown>>): string {
  const { transport, stdio, http, protocol, sandbox, client_features } = server;
  return canonicalJson({ transport, stdio, http, protocol, sandbox, client_features } as JsonValue);
}

export function sameConnection(
  a: Readonly<Record<ConnectionField, unknown>>,
  b: Readonly<Record<ConnectionField, unknown>>,
): boolean {
  return a === b || connectionKey(a) === connectionKey(b);
}

export type ReadRecord<R> = { readonly record: R } | { readonly problem: string };

/** Parsed like any other input: a record of an older version gets the defaults of fields that came later. */
export function readRecord<R extends StoreStamps>(kind: RecordKind<R>, id: string, input: unknown): ReadRecord<R> {
  const parsed = kind.parse(input, { strict: false });
  if (!parsed.ok) {
    const [issue] = parsed.issues;
    return { problem: `${issue?.path ?? ''} ${issue?.message ?? 'is not valid'}`.trim() };
  }
  if (idOf(kind, parsed.record) !== id)
    return { problem: `${kind.idField} does not match the key of the ${kind.name}` };
  return { record: parsed.record };
}

/** The same of its text. */
export function readRecordText<R extends StoreStamps>(kind: RecordKind<R>, id: string, text: string): ReadRecord<R> {
  try {
    return readRecord(kind, id, JSON.parse(text));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // The parser's own message quotes the text, and that may hold a secret.
    return { problem: 'the value is not JSON' };
  }
}

/** What to tell the operator of a record that is left out. */
export function leftOut<R extends StoreStamps>(place: string, kind: RecordKind<R>, id: string, problem: string) {
  return `${place}: the stored ${kind.name} "${id}" cannot be read and is skipped (${problem}): ${kind.repair(id)}`;
}
