import { create, toBinary, type UnknownField } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import {
  ListMcpServersResponseSchema,
  type McpRegistryEvent,
  McpRegistryEventSchema,
  WatchMcpServersResponseSchema,
} from '../../protocol/generated/sms/mcp_registry_pb.ts';
import { McpServerRecordSchema } from '../../protocol/generated/sms/mcp_server_record_pb.ts';
import type { McpServerRecord } from '../../protocol/record.ts';
import type { RegistryEvent, RegistryListing } from '../../protocol/record-events.ts';
import { recordToWire } from '../../protocol/record-wire.ts';
import { frameOf } from './stream-sink.ts';

// Records and events are never changed in place, so each is encoded once, when somebody first needs it, for everybody.
// Bytes that exist already enter a message as fields "unknown" to the library: those it copies as they are.

const LIST_SERVERS = ListMcpServersResponseSchema.field.servers.number;
const EVENT_RECORDS = McpRegistryEventSchema.field.records.number;

const encodedRecords = new WeakMap<McpServerRecord, Uint8Array>();
const framesWithRecords = new WeakMap<RegistryEvent, Uint8Array>();
const framesWithIds = new WeakMap<RegistryEvent, Uint8Array>();

/** The answer to a list. */
export function listFrame({ epoch, revision, servers }: RegistryListing): Uint8Array {
  const response = create(ListMcpServersResponseSchema, { epoch, revision: BigInt(revision) });
  response.$unknown = servers.map((record) => embedded(LIST_SERVERS, encodedRecord(record)));
  return frameOf(toBinary(ListMcpServersResponseSchema, response));
}

/** The event as it goes to every watcher. */
export function eventFrame(event: RegistryEvent, includeRecords: boolean): Uint8Array {
  const frames = includeRecords ? framesWithRecords : framesWithIds;
  let frame = frames.get(event);
  if (frame === undefined) {
    frame = watchFrame(eventMessage(event, includeRecords));
    frames.set(event, frame);
  }
  return frame;
}

export function heartbeatFrame(epoch: string, revision: number): Uint8Array {
  const at = BigInt(revision);
  return watchFrame(create(McpRegistryEventSchema, { epoch, revision: at, prevRevision: at, heartbeat: true }));
}

function eventMessage(event: RegistryEvent, includeRecords: boolean): McpRegistryEvent {
  const message = create(McpRegistryEventSchema, {
    epoch: event.epoch,
    revision: BigInt(event.revision),
    prevRevision: BigInt(event.prevRevision),
    upserts: event.upserts.map((record) => record.server_id),
    deletes: [...event.deletes],
  });
  if (includeRecords) {
    message.$unknown = event.upserts.map((record) => embedded(EVENT_RECORDS, encodedRecord(record)));
  }
  return message;
}

function watchFrame(event: McpRegistryEvent): Uint8Array {
  return frameOf(toBinary(WatchMcpServersResponseSchema, create(WatchMcpServersResponseSchema, { event })));
}

function encodedRecord(record: McpServerRecord): Uint8Array {
  let bytes = encodedRecords.get(record);
  if (bytes === undefined) {
    bytes = lengthAndBytes(toBinary(McpServerRecordSchema, recordToWire(record)));
    encodedRecords.set(record, bytes);
  }
  return bytes;
}

function embedded(no: number, data: Uint8Array): UnknownField {
  return { no, wireType: WireType.LengthDelimited, data };
}

function lengthAndBytes(bytes: Uint8Array): Uint8Array {
  return new BinaryWriter().bytes(bytes).finish();
}
