import { create, type DescMessage, type MessageShape, toBinary, type UnknownField } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import {
  ListMcpProfilesResponseSchema,
  McpProfileEventSchema,
  McpProfileSchema,
  WatchMcpProfilesResponseSchema,
} from '../../generated/proto/sms/mcp_profile_pb.ts';
import {
  ListMcpServersResponseSchema,
  McpRegistryEventSchema,
  WatchMcpServersResponseSchema,
} from '../../generated/proto/sms/mcp_registry_pb.ts';
import { McpServerRecordSchema } from '../../generated/proto/sms/mcp_server_record_pb.ts';
import {
  ListStopsResponseSchema,
  StopEventSchema,
  StopSchema,
  WatchStopsResponseSchema,
} from '../../generated/proto/sms/stop_pb.ts';
import {
  ListTaskRecordsResponseSchema,
  TaskRecordEventSchema,
  TaskRecordSchema,
  WatchTaskRecordsResponseSchema,
} from '../../generated/proto/sms/task_records_pb.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { RegistryEvent, RegistryListing } from '../../server/records/record-kind.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import type { StopRecord } from '../../server/records/stop.ts';
import type { TaskRecord } from '../../server/records/task.ts';
import { profileToWire, recordToWire, stopToWire, taskToWire } from '../../server/records/wire.ts';
import { frameOf } from './stream-sink.ts';

/** What goes to those who list and watch a kind of record. */
export interface KindMessages<R> {
  /** The answer to a list. */
  listFrame(listing: RegistryListing<R>): Uint8Array;
  /** The event as it goes to every watcher. */
  eventFrame(event: RegistryEvent<R>, includeRecords: boolean): Uint8Array;
  heartbeatFrame(epoch: string, revision: number): Uint8Array;
}

export const serverMessages: KindMessages<McpServerRecord> = kindMessages({
  record: (record) => toBinary(McpServerRecordSchema, recordToWire(record)),
  idOf: ({ server_id }) => server_id,
  list: (epoch, revision, records) => encoded(ListMcpServersResponseSchema, { epoch, revision }, 'servers', records),
  event: (fields, records) => encoded(McpRegistryEventSchema, fields, 'records', records),
  watch: WatchMcpServersResponseSchema,
});

export const profileMessages: KindMessages<McpProfile> = kindMessages({
  record: (profile) => toBinary(McpProfileSchema, profileToWire(profile)),
  idOf: ({ name }) => name,
  list: (epoch, revision, records) => encoded(ListMcpProfilesResponseSchema, { epoch, revision }, 'profiles', records),
  event: (fields, records) => encoded(McpProfileEventSchema, fields, 'records', records),
  watch: WatchMcpProfilesResponseSchema,
});

export const taskMessages: KindMessages<TaskRecord> = kindMessages({
  record: (task) => toBinary(TaskRecordSchema, taskToWire(task)),
  idOf: ({ task_id }) => task_id,
  list: (epoch, revision, records) => encoded(ListTaskRecordsResponseSchema, { epoch, revision }, 'tasks', records),
  event: (fields, records) => encoded(TaskRecordEventSchema, fields, 'records', records),
  watch: WatchTaskRecordsResponseSchema,
});

export const stopMessages: KindMessages<StopRecord> = kindMessages({
  record: (stop) => toBinary(StopSchema, stopToWire(stop)),
  idOf: ({ stop_id }) => stop_id,
  list: (epoch, revision, records) => encoded(ListStopsResponseSchema, { epoch, revision }, 'stops', records),
  event: (fields, records) => encoded(StopEventSchema, fields, 'records', records),
  watch: WatchStopsResponseSchema,
});

/** Of an event of any kind. */
interface EventFields {
  readonly epoch: string;
  readonly revision: bigint;
  readonly prevRevision: bigint;
  readonly upserts?: string[];
  readonly deletes?: string[];
  readonly heartbeat?: boolean;
}

interface KindEncoding<R> {
  readonly record: (record: R) => Uint8Array;
  readonly idOf: (record: R) => string;
  /** Both take records that are encoded already. */
  readonly list: (epoch: string, revision: bigint, records: readonly Uint8Array[]) => Uint8Array;
  readonly event: (fields: EventFields, records: readonly Uint8Array[]) => Uint8Array;
  readonly watch: DescMessage;
}

/** Records and events are never changed in place, so each is encoded once, when somebody first needs it, for everybody. */
function kindMessages<R extends object>(encoding: KindEncoding<R>): KindMessages<R> {
  const records = new WeakMap<R, Uint8Array>();
  const withRecords = new WeakMap<RegistryEvent<R>, Uint8Array>();
  const withIds = new WeakMap<RegistryEvent<R>, Uint8Array>();
  const recordBytes = (record: R) => remembered(records, record, () => lengthAndBytes(encoding.record(record)));
  const eventNumber = encoding.watch.fields.find(({ name }) => name === 'event')?.number ?? 0;
  const watchFrame = (fields: EventFields, ofRecords: readonly Uint8Array[]) => {
    const message = create(encoding.watch);
    message.$unknown = [embedded(eventNumber, lengthAndBytes(encoding.event(fields, ofRecords)))];
    return frameOf(toBinary(encoding.watch, message));
  };
  return {
    listFrame: ({ epoch, revision, records: all }) =>
      frameOf(encoding.list(epoch, BigInt(revision), all.map(recordBytes))),
    eventFrame: (event, includeRecords) =>
      remembered(includeRecords ? withRecords : withIds, event, () => {
        const fields = {
          epoch: event.epoch,
          revision: BigInt(event.revision),
          prevRevision: BigInt(event.prevRevision),
          upserts: event.upserts.map(encoding.idOf),
          deletes: [...event.deletes],
        };
        return watchFrame(fields, includeRecords ? event.upserts.map(recordBytes) : []);
      }),
    heartbeatFrame: (epoch, revision) => {
      const at = BigInt(revision);
      return watchFrame({ epoch, revision: at, prevRevision: at, heartbeat: true }, []);
    },
  };
}

function remembered<K extends object>(known: WeakMap<K, Uint8Array>, key: K, make: () => Uint8Array): Uint8Array {
  let bytes = known.get(key);
  if (bytes === undefined) {
    bytes = make();
    known.set(key, bytes);
  }
  return bytes;
}

/** Bytes that exist already enter a message as fields "unknown" to the library: those it copies as they are. */
function encoded<Desc extends DescMessage>(
  schema: Desc,
  fields: Parameters<typeof create<Desc>>[1],
  recordsField: string & keyof Desc['field'],
  records: readonly Uint8Array[],
): Uint8Array {
  const message: MessageShape<Desc> = create(schema, fields);
  const number = schema.field[recordsField]?.number ?? 0;
  message.$unknown = records.map((record) => embedded(number, record));
  return toBinary(schema, message);
}

function embedded(no: number, data: Uint8Array): UnknownField {
  return { no, wireType: WireType.LengthDelimited, data };
}

function lengthAndBytes(bytes: Uint8Array): Uint8Array {
  return new BinaryWriter().bytes(bytes).finish();
}
