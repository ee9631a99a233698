import type { Parsed, RecordIssue, StoreStamps } from '../records/record-kind.ts';
import type { McpServerRecord } from '../records/server.ts';
import { type RegistryStore, StoreError, type UpsertResult, wasOvertaken } from './store.ts';

/** The record cannot be stored; each issue names a field. */
export class InvalidRecord extends Error {
  readonly issues: readonly RecordIssue[];

  constructor(issues: readonly RecordIssue[]) {
    super(issues.map((issue) => (issue.path === '' ? issue.message : `${issue.path}: ${issue.message}`)).join('; '));
    this.name = 'InvalidRecord';
    this.issues = issues;
  }
}

export interface WrittenRecord<R = McpServerRecord> extends UpsertResult<R> {
  readonly created: boolean;
  readonly warnings: readonly RecordIssue[];
}

export interface RecordWrite<R = McpServerRecord> {
  readonly id: string;
  /** The new content, made from the stored record: some fields may have to keep their values. */
  readonly input: (stored: R | null) => unknown;
  readonly strict: boolean;
  /** As in the store: 0 means "only if there is none". Undefined: no condition. */
  readonly ifModRevision?: number;
}

/** Attempts of a write that conflicts with concurrent writes. Each failed attempt means that another write succeeded. */
export const MAX_TRIES = 16;

/** Validates and stores one record. The new content is always made from the record that it replaces. */
export async function writeRecord<R extends StoreStamps>(
  store: RegistryStore<R>,
  write: RecordWrite<R>,
): Promise<WrittenRecord<R>> {
  for (let tries = 1; ; tries++) {
    const stored = await store.get(write.id);
    checkCondition(store.kind.name, write, stored);
    const { record, warnings } = accept(store.kind.parse(write.input(stored), { strict: write.strict }));
    try {
      const result = await store.upsert(record, { ifModRevision: stored?.mod_revision ?? 0 });
      return { ...result, created: stored === null, warnings };
    } catch (error) {
      if (tries >= MAX_TRIES || !wasOvertaken(error)) throw error;
    }
  }
}

export function accept<R>(parsed: Parsed<R>): Extract<Parsed<R>, { ok: true }> {
  if (parsed.ok) return parsed;
  throw new InvalidRecord(parsed.issues);
}

function checkCondition(
  kind: string,
  { id, ifModRevision }: Pick<RecordWrite, 'id' | 'ifModRevision'>,
  stored: StoreStamps | null,
): void {
  if (ifModRevision === undefined || ifModRevision === (stored?.mod_revision ?? 0)) return;
  if (ifModRevision === 0) throw new StoreError('already_exists', `${kind} "${id}" already exists`);
  const found = stored === null ? 'does not exist' : `is at revision ${stored.mod_revision}`;
  throw new StoreError('revision_mismatch', `${kind} "${id}" ${found}; the write expected revision ${ifModRevision}`);
}
