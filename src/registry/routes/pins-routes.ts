import { hashDefinition, readDefinition } from '../../agent/policy/definition-hash.ts';
import { canonicalJson, isJsonObject, type JsonObject } from '../../base/json.ts';
import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { etag, type HttpCall, jsonBody, writeCondition } from '../../server/http/route.ts';
import type { Caller } from '../../server/identity/caller.ts';
import { MAX_PINNED_DEFINITION_BYTES, type PinnedDefinition, pinId } from '../../server/records/pin.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { writeRecord } from '../../server/store/record-write.ts';
import type { RegistryStore } from '../../server/store/store.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import { ADMIN_PATH, conditional } from './servers-routes.ts';

export interface PinsRoutesDeps {
  readonly store: AuditedStore;
  readonly pins: RegistryStore<PinnedDefinition>;
  readonly strict: boolean;
}

const MAX_BODY_BYTES = 8 * 1024 * 1024;

/** What the tools of a server were when somebody accepted them. */
export function pinsRoutes(deps: PinsRoutesDeps): Route[] {
  const path = `${ADMIN_PATH}/servers/{id}/pins`;
  return [
    { method: 'GET', path, needs: 'view', run: ({ id }) => get(deps, id) },
    { method: 'PUT', path, needs: 'operate', run: (call) => put(deps, call) },
  ];
}

async function get({ store, pins }: PinsRoutesDeps, id: string): Promise<HttpReply> {
  const record = await store.get(id);
  if (record === null) throw missing();
  const shown = await Promise.all(Object.keys(record.pins).map((tool) => pinJson(pins, record, tool)));
  return jsonReply(200, { server_id: id, pins: shown }, { etag: etag(record.mod_revision) });
}

/** Only a definition that has the hash of the record is the one that was accepted. */
async function pinJson(pins: RegistryStore<PinnedDefinition>, record: McpServerRecord, tool: string) {
  const sha256 = record.pins[tool] ?? '';
  const kept = await pins.get(pinId(record.server_id, tool));
  const same = kept?.sha256 === sha256 ? kept : null;
  return {
    tool_name: tool,
    sha256,
    definition: same?.definition ?? null,
    pinned_by: same?.pinned_by ?? null,
    pinned_at_ms: same?.updated_at_ms ?? null,
  };
}

/** `{tools: {NAME: definition}}`; null takes a pin away. The hash is made here, of what is kept. */
async function put(deps: PinsRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const { id } = call;
  const condition = writeCondition(call.headers);
  const { tools } = await jsonBody(call, MAX_BODY_BYTES);
  if (!isJsonObject(tools)) throw new HttpProblem(400, 'invalid-body', 'tools: expected an object');
  const pinned = Object.entries(tools).map(([tool, definition]) => pinOf(call.caller, id, tool, definition));
  if ((await deps.store.get(id)) === null) throw missing();
  return conditional(condition, async () => {
    await keep(deps.pins, pinned);
    const input = (stored: McpServerRecord | null) => {
      if (stored === null) throw missing();
      const { updated_at_ms: _updated, mod_revision: _revision, pins, ...content } = stored;
      const gone = new Set(pinned.map(({ tool }) => tool));
      const left = Object.entries(pins).filter(([tool]) => !gone.has(tool));
      const added = pinned.flatMap(({ tool, pin }): [string, string][] => (pin === null ? [] : [[tool, pin.sha256]]));
      return { ...content, pins: Object.fromEntries([...left, ...added]) };
    };
    const at = condition.kind === 'at_revision' ? { ifModRevision: condition.modRevision } : {};
    await writeRecord(deps.store.as(call.caller), { id, input, strict: deps.strict, ...at });
    return get(deps, id);
  });
}

interface AskedPin {
  readonly tool: string;
  readonly pin: PinnedDefinition | null;
  readonly id: string;
}

function pinOf(caller: Caller, serverId: string, tool: string, given: JsonObject[string]): AskedPin {
  const id = pinId(serverId, tool);
  if (given === null) return { tool, pin: null, id };
  if (!isJsonObject(given)) throw new HttpProblem(400, 'invalid-body', 'tools: expected a definition or null');
  const definition = readDefinition(given);
  if (definition.name !== tool)
    throw new HttpProblem(400, 'invalid-body', 'tools: the name in a definition does not match its key');
  const sha256 = hashDefinition(definition);
  const pinned_by = caller.actor;
  const kept = { ...definition } as unknown as JsonObject;
  return { tool, id, pin: { pin_id: id, sha256, definition: kept, pinned_by, updated_at_ms: 0, mod_revision: 0 } };
}

/** Before the record names them, so that none is named that is not there. */
async function keep(pins: RegistryStore<PinnedDefinition>, asked: readonly AskedPin[]): Promise<void> {
  for (const { id, pin } of asked) {
    const fits = pin !== null && Buffer.byteLength(canonicalJson(pin.definition)) <= MAX_PINNED_DEFINITION_BYTES;
    if (pin !== null && fits) await pins.upsert(pin);
    else if ((await pins.get(id)) !== null) await pins.remove(id);
  }
}

function missing(): HttpProblem {
  return new HttpProblem(404, 'no-such-server', 'there is no such server');
}
