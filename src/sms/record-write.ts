import type { McpServerRecord, RecordIssue } from '../protocol/record.ts';
import { type ParsedRecord, parseRecord } from '../protocol/record-parse.ts';
import { type RegistryStore, StoreError, type UpsertResult, wasOvertaken } from './store/store.ts';

/** The record cannot be stored; each issue names a field. */
export class InvalidRecord extends Error {
  readonly issues: readonly RecordIssue[];

  constructor(issues: readonly RecordIssue[]) {
    super(issues.map((issue) => (issue.path === '' ? issue.message : `${issue.path}: ${issue.message}`)).join('; '));
    this.name = 'InvalidRecord';
    this.issues = issues;
  }
}

export interface WrittenRecord extends UpsertResult {
  readonly created: boolean;
  readonly warnings: readonly RecordIssue[];
}

export interface RecordWrite {
  readonly serverId: string;
  /** The new content, made from what is stored: some of it may have to be kept. */
  readonly input: (stored: McpServerRecord | null) => unknown;
  readonly strict: boolean;
  /** As in the store: 0 means "only if there is none". Undefined: whatever is there. */
  readonly ifModRevision?: number;
}

/** How often a write may lose against others before it gives up. Each time, somebody else's write went through. */
export const MAX_TRIES = 16;

/** Validates and stores one record. What is written was made from the very record that it replaces. */
export async function writeRecord(store: RegistryStore, write: RecordWrite): Promise<WrittenRecord> {
  for (let tries = 1; ; tries++) {
    const stored = await store.get(write.serverId);
    checkCondition(write, stored);
    const { record, warnings } = accept(parseRecord(write.input(stored), { strict: write.strict }));
    try {
      const result = await store.upsert(record, { ifModRevision: stored?.mod_revision ?? 0 });
      return { ...result, created: stored === null, warnings };
    } catch (error) {
      if (tries >= MAX_TRIES || !wasOvertaken(error)) throw error;
    }
  }
}

export function accept(parsed: ParsedRecord): Extract<ParsedRecord, { ok: true }> {
  if (parsed.ok) return parsed;
  throw new InvalidRecord(parsed.issues);
}

function checkCondition({ serverId, ifModRevision }: RecordWrite, stored: McpServerRecord | null): void {
  if (ifModRevision === undefined || ifModRevision === (stored?.mod_revision ?? 0)) return;
  if (ifModRevision === 0) throw new StoreError('already_exists', `there is a server "${serverId}" already`);
  const found = stored === null ? 'is not there' : `is at revision ${stored.mod_revision}`;
  throw new StoreError('revision_mismatch', `server "${serverId}" ${found}, and the write is for ${ifModRevision}`);
}
