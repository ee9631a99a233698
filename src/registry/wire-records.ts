import { Turns } from '../base/turns.ts';
import type { McpRegistryEvent } from '../protocol/generated/sms/mcp_registry_pb.ts';
import type { McpServerRecord as WireRecord } from '../protocol/generated/sms/mcp_server_record_pb.ts';
import type { McpServerRecord, RecordIssue } from '../protocol/record.ts';
import type { RegistryEvent } from '../protocol/record-events.ts';
import { parseRecord } from '../protocol/record-parse.ts';
import { wireToInput } from '../protocol/record-wire.ts';

export type OnInvalidRecord = (serverId: string, issue: RecordIssue) => void;

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
    const records = await this.#read(wire, signal, (message) => this.#reusable(epoch, message) ?? this.#parse(message));
    this.#known = new Map(records.map((record) => [record.server_id, record]));
    return records;
  }

  async readEvent(event: McpRegistryEvent, signal: AbortSignal): Promise<RegistryEvent> {
    const upserts = await this.#read(event.records, signal, (message) => this.#parse(message));
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

  /** A registry may have thousands of records, and an import changes as many at once. */
  async #read(
    wire: readonly WireRecord[],
    signal: AbortSignal,
    read: (message: WireRecord) => McpServerRecord | null,
  ): Promise<McpServerRecord[]> {
    const turns = new Turns();
    const records: McpServerRecord[] = [];
    for (const message of wire) {
      const record = read(message);
      if (record !== null) records.push(record);
      if (!turns.over) continue;
      await turns.next();
      signal.throwIfAborted();
    }
    return records;
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
