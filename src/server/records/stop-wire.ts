import { create } from '@bufbuild/protobuf';
import { StopSchema, type Stop as WireStop } from '../../generated/proto/sms/stop_pb.ts';
import type { StopRecord } from './stop.ts';
import { stopKind } from './stop-kind.ts';

export function stopToWire(stop: StopRecord): WireStop {
  return create(StopSchema, {
    stopId: stop.stop_id,
    scope: stop.scope,
    name: stop.name,
    effect: stop.effect,
    reason: stop.reason,
    createdBy: stop.created_by,
    createdAtMs: BigInt(stop.created_at_ms),
    updatedAtMs: BigInt(stop.updated_at_ms),
    modRevision: BigInt(stop.mod_revision),
  });
}

/**
 * A message of a registry, in the shape that the kind parses. A stop that this version does not understand must not be
 * ignored: it applies to everything.
 */
export function wireToStopInput(wire: WireStop): Record<string, unknown> {
  const input = {
    stop_id: wire.stopId,
    scope: wire.scope,
    name: wire.name,
    effect: wire.effect,
    reason: wire.reason,
    created_by: wire.createdBy,
    created_at_ms: Number(wire.createdAtMs),
    updated_at_ms: Number(wire.updatedAtMs),
    mod_revision: Number(wire.modRevision),
  };
  if (stopKind.parse(input, { strict: false }).ok) return input;
  return { ...input, scope: 'all', name: '', effect: 'stop', reason: 'a stop that this version cannot read' };
}
