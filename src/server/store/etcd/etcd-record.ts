import type { RecordKind, StoreStamps } from '../../records/record-kind.ts';
import { readRecord } from '../read-record.ts';
import type { Stored } from '../record-memory.ts';
import { textOf } from './etcd-keys.ts';

/** A record as its key has it. */
export interface EtcdStored<R> extends Stored<R> {
  /** The mod revision of its key: what a write compares with. An import writes keys without changing every record. */
  readonly keyRevision: bigint;
}

export interface RecordText {
  /** As JSON, without what the store itself writes into it. */
  readonly content: string;
  readonly origin: string;
  readonly updatedAtMs: number;
  /** Its revision, where an import only copied it; null: that of the write. */
  readonly at: number | null;
}

export function recordText({ content, origin, updatedAtMs, at }: RecordText): string {
  return `{"origin":${JSON.stringify(origin)},"at":${at},"updated_at_ms":${updatedAtMs},"record":${content}}`;
}

export type ReadStored<R> = { readonly stored: EtcdStored<R> } | { readonly problem: string };

/** `written` is the revision of the kind at which the key's content became visible. */
export function readStored<R extends StoreStamps>(
  kind: RecordKind<R>,
  id: string,
  value: Uint8Array,
  keyRevision: bigint,
  written: number,
): ReadStored<R> {
  let input: unknown;
  try {
    input = JSON.parse(textOf(value));
  } catch {
    return { problem: 'the value is not JSON' };
  }
  if (!isEnvelope(input)) return { problem: 'the value was not written by a registry' };
  const { record, updated_at_ms, at, origin } = input;
  const read = readRecord(kind, id, { ...record, updated_at_ms, mod_revision: at ?? written });
  return 'problem' in read ? read : { stored: { record: read.record, origin, keyRevision } };
}

interface Envelope {
  readonly origin: string;
  readonly at: number | null;
  readonly updated_at_ms: number;
  readonly record: object;
}

function isEnvelope(input: unknown): input is Envelope {
  if (typeof input !== 'object' || input === null) return false;
  const { origin, at, updated_at_ms, record } = input as Partial<Record<keyof Envelope, unknown>>;
  return (
    typeof origin === 'string' &&
    (at === null || Number.isSafeInteger(at)) &&
    Number.isSafeInteger(updated_at_ms) &&
    typeof record === 'object' &&
    record !== null
  );
}
