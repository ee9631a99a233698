import type { McpRegistryEvent } from '../protocol/generated/sms/mcp_registry_pb.ts';
import type { McpServerRecord as WireRecord } from '../protocol/generated/sms/mcp_server_record_pb.ts';
import type { McpServerRecord, RecordIssue } from '../protocol/record.ts';
import type { RegistryEvent } from '../protocol/record-events.ts';
import { parseRecord } from '../protocol/record-parse.ts';
import { wireToInput } from '../protocol/record-wire.ts';

export type OnInvalidRecord = (serverId: string, issue: RecordIssue) => void;

/** Checking a record takes some 50 µs; after this many the thread is given back to others. */
const RECORDS_PER_TURN = 200;

/**
 * Turns what a registry sent into records. One that this node cannot understand is left out and reported: it fails
 * that server alone, and never leaves an older version of it in force.
 */
export class WireRecords {
  readonly #onInvalid: OnInvalidRecord;
  #epoch = '';
  /** By id, to check a record once and not at every list. Holds what the node's snapshot holds as well. */
  #known = new Map<string, McpServerRecord>();

  constructor(onInvalid: OnInvalidRecord) {
    this.#onInvalid = onInvalid;
  }

  async readAll(epoch: string, wire: readonly WireRecord[], signal: AbortSignal): Promise<McpServerRecord[]> {
    if (epoch !== this.#epoch) this.#known.clear();
    this.#epoch = epoch;
    const records: McpServerRecord[] = [];
    for (const [index, message] of wire.entries()) {
      if (index % RECORDS_PER_TURN === RECORDS_PER_TURN - 1) await turn(signal);
      const record = this.#reusable(epoch, message) ?? this.#parse(message);
      if (record !== null) records.push(record);
    }
    this.#known = new Map(records.map((record) => [record.server_id, record]));
    return records;
  }

  readEvent(event: McpRegistryEvent): RegistryEvent {
    const upserts = event.records.flatMap((message) => this.#parse(message) ?? []);
    const understood = new Set(upserts.map((record) => record.server_id));
    const deletes = [...event.deletes, ...event.upserts.filter((id) => !understood.has(id))];
    for (const id of deletes) this.#known.delete(id);
    for (const record of upserts) this.#known.set(record.server_id, record);
    return {
      epoch: event.epoch,
      revision: Number(event.revision),
      prevRevision: Number(event.prevRevision),
      upserts,
      deletes,
    };
  }

  /** Within one epoch a record with the same revision is the same record. */
  #reusable(epoch: string, { serverId, modRevision }: WireRecord): McpServerRecord | null {
    const known = this.#known.get(serverId);
    const same = epoch !== '' && modRevision > 0n && known?.mod_revision === Number(modRevision);
    return same ? (known ?? null) : null;
  }

  #parse(message: WireRecord): McpServerRecord | null {
    const parsed = parseRecord(wireToInput(message), { strict: false });
    if (parsed.ok) return parsed.record;
    const [issue = { path: '', message: 'is not valid' }] = parsed.issues;
    this.#onInvalid(message.serverId, issue);
    return null;
  }
}

async function turn(signal: AbortSignal): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
  signal.throwIfAborted();
}
