/**
 * The records of a registry over the network: list and watch for every kind, and the additional calls of tasks.
 *
 * Invariants
 * - A record that this node cannot parse is reported and left out. An older version of it never stays in force.
 * - Within one epoch a record at an unchanged revision is not parsed again.
 * - Reading yields to the event loop: a registry may have thousands of records.
 */
import { type Client, Code, ConnectError, createClient, type Transport } from '@connectrpc/connect';
import { untilAborted } from '../base/abort.ts';
import { TimeSlice } from '../base/timing.ts';
import { StopService } from '../generated/proto/sms/stop_pb.ts';
import { TaskRecordService, type TaskRecord as WireTask } from '../generated/proto/sms/task_records_pb.ts';
import { idOf, type RegistryEvent, type RegistryListing, type StoreStamps } from '../server/records/record-kind.ts';
import type { StopRecord } from '../server/records/stop.ts';
import { revisionId, type TaskRecord, type TaskRevision, taskRevisionKind } from '../server/records/task.ts';
import { type WireKind, wireKinds, wireToRevisionInput } from '../server/records/wire.ts';
import type { OnInvalidRecord, TaskPort } from './ports.ts';
import type { RegistrySource, RegistryWatchItem } from './source.ts';

/** Rethrows an error of a call with the name of the registry. */
export type ExplainError = (error: unknown) => never;

interface WireRecord {
  readonly modRevision: bigint;
}

interface WireEvent<Wire> {
  readonly epoch: string;
  readonly revision: bigint;
  readonly prevRevision: bigint;
  readonly heartbeat: boolean;
  readonly upserts: readonly string[];
  readonly deletes: readonly string[];
  readonly records: readonly Wire[];
}

/** The two gRPC calls of a kind. */
interface RecordCalls<Wire> {
  list(signal: AbortSignal): Promise<{ readonly epoch: string; readonly revision: bigint; readonly records: Wire[] }>;
  watch(sinceRevision: bigint, signal: AbortSignal): AsyncIterable<{ readonly event?: WireEvent<Wire> | undefined }>;
}

export class RemoteRecords<Wire extends WireRecord, R extends StoreStamps> implements RegistrySource<R> {
  readonly #wire: WireKind<Wire, R>;
  readonly #calls: RecordCalls<Wire>;
  readonly #explain: ExplainError;
  readonly #onInvalid: OnInvalidRecord;
  #epoch = '';
  #canWatchRecords = false;
  /** Parsed records by id, shared with the node's snapshot. */
  #known = new Map<string, R>();

  constructor(
    wire: WireKind<Wire, R>,
    calls: RecordCalls<Wire>,
    explain: ExplainError,
    onInvalid: OnInvalidRecord = () => {},
  ) {
    this.#wire = wire;
    this.#calls = calls;
    this.#explain = explain;
    this.#onInvalid = onInvalid;
  }

  /** Only a registry with epochs sends records with its events. */
  get canWatchRecords(): boolean {
    return this.#canWatchRecords;
  }

  async list(signal: AbortSignal): Promise<RegistryListing<R>> {
    const { epoch, revision, records } = await this.#calls.list(signal).catch(this.#explain);
    this.#canWatchRecords = epoch !== '';
    return { epoch, revision: Number(revision), records: await this.#readAll(epoch, records, signal) };
  }

  async *watch(since: number, signal: AbortSignal): AsyncGenerator<RegistryWatchItem<R>> {
    try {
      for await (const { event } of this.#calls.watch(BigInt(since), signal)) {
        if (event === undefined) continue;
        if (event.epoch !== '') this.#canWatchRecords = true;
        if (event.heartbeat) {
          yield { heartbeat: true, epoch: event.epoch, revision: Number(event.revision) };
          continue;
        }
        if (event.records.length < event.upserts.length) this.#canWatchRecords = false;
        yield await this.#readEvent(event, signal);
      }
    } catch (error) {
      this.#explain(error);
    }
  }

  async #readAll(epoch: string, wire: readonly Wire[], signal: AbortSignal): Promise<R[]> {
    if (epoch !== this.#epoch) this.#known.clear();
    this.#epoch = epoch;
    const records = await this.#read(wire, signal, (message) => this.#reusable(epoch, message) ?? this.#parse(message));
    this.#known = new Map(records.map((record) => [this.#idOf(record), record]));
    return records;
  }

  async #readEvent(event: WireEvent<Wire>, signal: AbortSignal): Promise<RegistryEvent<R>> {
    const upserts = await this.#read(event.records, signal, (message) => this.#parse(message));
    const parsed = new Set(upserts.map((record) => this.#idOf(record)));
    const deletes = [...event.deletes, ...event.upserts.filter((id) => !parsed.has(id))];
    for (const id of deletes) this.#known.delete(id);
    for (const record of upserts) this.#known.set(this.#idOf(record), record);
    const { epoch, revision, prevRevision } = event;
    return { epoch, revision: Number(revision), prevRevision: Number(prevRevision), upserts, deletes };
  }

  async #read(wire: readonly Wire[], signal: AbortSignal, read: (message: Wire) => R | null): Promise<R[]> {
    const slice = new TimeSlice();
    const records: R[] = [];
    for (const message of wire) {
      const record = read(message);
      if (record !== null) records.push(record);
      if (!slice.isOver) continue;
      await slice.yield();
      signal.throwIfAborted();
    }
    return records;
  }

  #reusable(epoch: string, wire: Wire): R | null {
    const known = this.#known.get(this.#wire.idOf(wire));
    const same = epoch !== '' && wire.modRevision > 0n && known?.mod_revision === Number(wire.modRevision);
    return same ? (known ?? null) : null;
  }

  #parse(wire: Wire): R | null {
    const parsed = this.#wire.kind.parse(this.#wire.input(wire), { strict: false });
    if (parsed.ok) return parsed.record;
    const [issue = { path: '', message: 'is not valid' }] = parsed.issues;
    this.#onInvalid(this.#wire.idOf(wire), issue);
    return null;
  }

  #idOf(record: R): string {
    return idOf(this.#wire.kind, record);
  }
}

/** The stops of a registry. A registry of an earlier version has none. */
export function remoteStops(transport: Transport, explain: ExplainError): RegistrySource<StopRecord> {
  const client = createClient(StopService, transport);
  const calls = {
    async list(signal: AbortSignal) {
      const response = await client.listStops({}, { signal }).catch(ifUnimplemented(null));
      if (response === null) return { epoch: '', revision: 0n, records: [] };
      return { epoch: response.epoch, revision: response.revision, records: response.stops };
    },
    async *watch(sinceRevision: bigint, signal: AbortSignal) {
      try {
        yield* client.watchStops({ sinceRevision }, { signal });
      } catch (error) {
        const none = { epoch: '', revision: 0n, prevRevision: 0n, upserts: [], deletes: [], records: [] };
        yield ifUnimplemented({ event: { ...none, heartbeat: true } })(error);
        // The cache polls, so it detects when the registry is replaced by one with stops.
        await untilAborted(new Promise<never>(() => {}), signal);
      }
    },
  };
  return new RemoteRecords(wireKinds.stops, calls, explain);
}

/** The tasks of a registry. */
export class RemoteTasks extends RemoteRecords<WireTask, TaskRecord> implements TaskPort {
  readonly #client: Client<typeof TaskRecordService>;
  readonly #explain: ExplainError;

  constructor(transport: Transport, onInvalid: OnInvalidRecord, explain: ExplainError) {
    const client = createClient(TaskRecordService, transport);
    const calls = {
      async list(signal: AbortSignal) {
        const { epoch, revision, tasks } = await client.listTaskRecords({}, { signal });
        return { epoch, revision, records: tasks };
      },
      watch: (sinceRevision: bigint, signal: AbortSignal) => client.watchTaskRecords({ sinceRevision }, { signal }),
    };
    super(wireKinds.tasks, calls, explain, onInvalid);
    this.#client = client;
    this.#explain = explain;
  }

  async revision(taskId: string, revision: number, signal: AbortSignal): Promise<TaskRevision | null> {
    const response = await this.#client
      .getTaskRevision({ taskId, revision: BigInt(revision) }, { signal })
      .catch((error: unknown) => (hasCode(error, Code.NotFound) ? null : this.#explain(error)));
    if (response?.revision === undefined) return null;
    const input = { ...wireToRevisionInput(response.revision), revision_id: revisionId(taskId, revision) };
    const parsed = taskRevisionKind.parse(input, { strict: false });
    if (!parsed.ok) {
      const [issue] = parsed.issues;
      throw new Error(`${revisionId(taskId, revision)} is not valid: ${issue?.path ?? ''} ${issue?.message ?? ''}`);
    }
    return parsed.record;
  }

  async module(sha256: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const { chunk } of this.#client.readTaskModule({ sha256 }, { signal })) {
        bytes += chunk.byteLength;
        if (bytes > maxBytes) throw new Error(`the module ${sha256} has more than ${maxBytes} bytes`);
        chunks.push(chunk);
      }
    } catch (error) {
      this.#explain(error);
    }
    return Buffer.concat(chunks);
  }
}

/** Returns a value instead of the error of a service that the registry does not have. */
function ifUnimplemented<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (hasCode(error, Code.Unimplemented)) return value;
    throw error;
  };
}

function hasCode(error: unknown, code: Code): boolean {
  return error instanceof ConnectError && error.code === code;
}
