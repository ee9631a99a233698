import { create, toBinary, type UnknownField } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import {
  type ListMcpServersResponse,
  ListMcpServersResponseSchema,
  McpRegistryEventSchema,
  type WatchMcpServersResponse,
  WatchMcpServersResponseSchema,
} from '../../protocol/generated/sms/mcp_registry_pb.ts';
import { McpServerRecordSchema } from '../../protocol/generated/sms/mcp_server_record_pb.ts';
import type { McpServerRecord } from '../../protocol/record.ts';
import type { RegistryEvent, RegistryListing } from '../../protocol/record-events.ts';
import { recordToWire } from '../../protocol/record-wire.ts';

// Records and events are never changed in place, so each is encoded once, when somebody first needs it, for everybody.
// Bytes that exist already enter a message as fields "unknown" to the library: those it copies as they are.

const LIST_SERVERS = ListMcpServersResponseSchema.field.servers.number;
const EVENT_RECORDS = McpRegistryEventSchema.field.records.number;
const RESPONSE_EVENT = WatchMcpServersResponseSchema.field.event.number;

const encodedRecords = new WeakMap<McpServerRecord, Uint8Array>();
const eventsWithRecords = new WeakMap<RegistryEvent, WatchMcpServersResponse>();
const eventsWithIds = new WeakMap<RegistryEvent, WatchMcpServersResponse>();

export function listResponse({ epoch, revision, servers }: RegistryListing): ListMcpServersResponse {
  const response = create(ListMcpServersResponseSchema, { epoch, revision: BigInt(revision) });
  response.$unknown = servers.map((record) => embedded(LIST_SERVERS, encodedRecord(record)));
  return response;
}

export function eventResponse(event: RegistryEvent, includeRecords: boolean): WatchMcpServersResponse {
  const cache = includeRecords ? eventsWithRecords : eventsWithIds;
  const cached = cache.get(event);
  if (cached !== undefined) return cached;
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
  const response = create(WatchMcpServersResponseSchema);
  response.$unknown = [embedded(RESPONSE_EVENT, lengthAndBytes(toBinary(McpRegistryEventSchema, message)))];
  cache.set(event, response);
  return response;
}

export function heartbeatResponse(epoch: string, revision: number): WatchMcpServersResponse {
  return create(WatchMcpServersResponseSchema, {
    event: { epoch, revision: BigInt(revision), prevRevision: BigInt(revision), heartbeat: true },
  });
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
