import { randomBytes } from 'node:crypto';
import { appliesToNode } from '../../agent/policy/stops.ts';
import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { type HttpCall, identityOf, jsonBody } from '../../server/http/route.ts';
import { mayName, refusal } from '../../server/identity/identity.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { ALL_NAMESPACES, type Identity } from '../../server/records/permissions.ts';
import {
  namespaceOfStop,
  type StopEffect,
  type StopRecord,
  stopLimits,
  stopTarget,
} from '../../server/records/stop.ts';
import { accept } from '../../server/store/record-write.ts';
import { type RegistryDatabase, StoreError } from '../../server/store/store.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import type { NodeReports, NodeView } from '../node-reports.ts';

export interface StopsRoutesDeps {
  readonly store: AuditedStore;
  readonly stops: AuditedStore<StopRecord>;
  readonly kept: Pick<RegistryDatabase, 'tasks'>;
  readonly reports: NodeReports;
  readonly log: ServiceLog;
}

export const STOPS_PATH = '/admin/api/stops';
const MAX_BODY_BYTES = 16 * 1024;

/** Stops: who sets or lifts one needs `administer`; `operate` is enough for pauses and drains. */
export function stopsRoutes(deps: StopsRoutesDeps): Route[] {
  return [
    { method: 'GET', path: STOPS_PATH, needs: 'view', run: (call) => list(deps, call) },
    { method: 'POST', path: STOPS_PATH, needs: 'operate', namespaced: true, run: (call) => create(deps, call) },
    { method: 'GET', path: `${STOPS_PATH}/{id}`, needs: 'view', run: (call) => get(deps, call) },
    {
      ...{ method: 'DELETE', path: `${STOPS_PATH}/{id}`, needs: 'operate', namespaced: true },
      run: (call) => lift(deps, call),
    },
  ];
}

async function list(deps: StopsRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const { epoch, revision, records } = await deps.stops.list();
  const seen = records.filter((stop) => maySee(identityOf(call), stop));
  return jsonReply(200, { revision, epoch, stops: seen.map((stop) => shown(deps, epoch, stop)) });
}

async function get(deps: StopsRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const stop = await find(deps, call);
  return jsonReply(200, shown(deps, await deps.stops.epoch(), stop));
}

async function create(deps: StopsRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const { stops, log } = deps;
  const caller = identityOf(call);
  const { scope, name = '', effect = 'stop', reason } = await jsonBody(call, MAX_BODY_BYTES);
  const input = {
    ...{ scope, name, effect, reason },
    stop_id: randomBytes(4).toString('hex'),
    created_by: caller.name,
    created_at_ms: Date.now(),
    authority: caller.namespace,
  };
  const { record: wanted } = accept(stops.kind.parse(input, { strict: true }));
  requireRight(caller, wanted);
  const { records, epoch } = await stops.list();
  const same = records.find((stop) => isSame(stop, wanted));
  if (same !== undefined) return jsonReply(200, { ...shown(deps, epoch, same), warnings: [] });
  requireRoom(records, wanted);
  const { record, revision } = await stops.as(call.caller).upsert(wanted, { ifModRevision: 0 });
  log('warn', 'stopped', { stop: record.stop_id, what: stopTarget(record), effect: record.effect, revision });
  const warnings = await doubts(deps, record);
  return jsonReply(201, { ...shown(deps, epoch, record), warnings }, { location: `${STOPS_PATH}/${record.stop_id}` });
}

async function lift(deps: StopsRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const { stops, log } = deps;
  const stop = await find(deps, call);
  const caller = identityOf(call);
  requireRight(caller, stop);
  if (!mayName(caller, stop.authority)) {
    const detail = 'this stop was set for all namespaces; only a user of all namespaces can lift it';
    throw new HttpProblem(403, 'not-permitted', detail);
  }
  const revision = await stops
    .as(call.caller)
    .remove(stop.stop_id)
    .catch((error: unknown) => {
      throw error instanceof StoreError && error.code === 'not_found' ? missing() : error;
    });
  log('warn', 'stop_lifted', { stop: stop.stop_id, what: stopTarget(stop), revision });
  return jsonReply(200, { revision });
}

async function find({ stops }: StopsRoutesDeps, call: HttpCall): Promise<StopRecord> {
  const stop = stops.kind.isId(call.id) ? await stops.get(call.id) : null;
  if (stop === null || !maySee(identityOf(call), stop)) throw missing();
  return stop;
}

const strong: ReadonlySet<StopEffect> = new Set(['stop', 'cancel']);

function requireRight(caller: Identity, stop: StopRecord): void {
  const namespace = namespaceOfStop(stop);
  const needs = strong.has(stop.effect) ? 'administer' : 'operate';
  const refused = refusal(caller, { needs, namespaced: namespace !== null });
  if (refused !== null) throw new HttpProblem(403, 'not-permitted', refused);
  if (namespace === null || mayName(caller, namespace)) return;
  throw new HttpProblem(403, 'other-namespace', `"${caller.name}" is limited to the namespace "${caller.namespace}"`);
}

/** A user of one namespace cannot use up the stops of other users. */
function requireRoom(records: readonly StopRecord[], { authority, effect }: StopRecord): void {
  const ofCaller = records.filter(
    (stop) => stop.authority === authority && strong.has(stop.effect) === strong.has(effect),
  );
  const { active, activePerNamespace } = stopLimits;
  if (ofCaller.length < (authority === ALL_NAMESPACES ? active : activePerNamespace)) return;
  const whose = authority === ALL_NAMESPACES ? 'all namespaces' : `the namespace "${authority}"`;
  const what = strong.has(effect) ? 'stops' : 'pauses and drains';
  const detail = `${ofCaller.length} ${what} by users of ${whose} are active, the maximum; lift some`;
  throw new HttpProblem(409, 'too-many-stops', detail);
}

const maySee = (identity: Identity, stop: StopRecord): boolean => {
  const namespace = namespaceOfStop(stop);
  return namespace === null || mayName(identity, namespace);
};

const isSame = (one: StopRecord, other: StopRecord): boolean =>
  one.scope === other.scope &&
  one.name === other.name &&
  one.effect === other.effect &&
  one.authority === other.authority;

/** A node of one namespace does not receive stops of other namespaces. */
function concerns(stop: StopRecord, { nodeId, namespace }: NodeView): boolean {
  if (stop.scope === 'node') return appliesToNode(stop, nodeId);
  const ofStop = namespaceOfStop(stop);
  return ofStop === null || namespace === ALL_NAMESPACES || namespace === ofStop;
}

/** A node that reports a revision of stops at or above that of the stop applies it. */
function shown({ reports }: StopsRoutesDeps, epoch: string, stop: StopRecord) {
  const nodes = reports.nodes().filter((node) => concerns(stop, node));
  const unconfirmed = nodes.filter(
    ({ stopsEpoch, stopsRevision = 0 }) => stopsEpoch !== epoch || stopsRevision < stop.mod_revision,
  );
  return {
    ...stop,
    confirmed: nodes.length - unconfirmed.length,
    unconfirmed: unconfirmed.map(({ nodeId, ageMs }) => ({ node_id: nodeId, age_ms: Math.round(ageMs) })),
  };
}

/** A name that nothing has is probably misspelt, and then nothing was stopped. */
async function doubts({ store, kept, reports }: StopsRoutesDeps, stop: StopRecord): Promise<string[]> {
  if (stop.scope === 'server' && (await store.get(stop.name)) === null) {
    return [`the registry has no server ${JSON.stringify(stop.name)}`];
  }
  if (stop.scope === 'task' && (await kept.tasks.get(stop.name)) === null) {
    return [
      `the registry has no task ${JSON.stringify(stop.name)}; only a task of this name in the task folder of a node is affected`,
    ];
  }
  if (stop.scope === 'node' && !reports.nodes().some(({ nodeId }) => appliesToNode(stop, nodeId))) {
    return [`no node ${JSON.stringify(stop.name)} reports to this registry`];
  }
  return [];
}

function missing(): HttpProblem {
  return new HttpProblem(404, 'no-such-stop', 'there is no such stop; it may have been lifted');
}
