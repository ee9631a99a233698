import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import { fieldError, HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { etag, type HttpCall, jsonBody, writeCondition } from '../../server/http/route.ts';
import type { Caller } from '../../server/identity/caller.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { recordLimits } from '../../server/records/field-rules.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import { InvalidRecord, type RecordWrite, writeRecord } from '../../server/store/record-write.ts';
import { DEFAULT_ORIGIN, StoreError } from '../../server/store/store.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import type { RegistryMetrics } from '../registry-metrics.ts';
import { ADMIN_PATH, conditional, withoutAddedFields } from './servers-routes.ts';

export interface ProfilesRoutesDeps {
  readonly profiles: AuditedStore<McpProfile>;
  readonly strict: boolean;
  readonly metrics: RegistryMetrics;
  readonly log: ServiceLog;
}

/** JSON may be written with spaces and escapes, so a body may be larger than what is stored. */
const MAX_PROFILE_BODY_BYTES = 4 * recordLimits.recordBytes;

export function profilesRoutes(deps: ProfilesRoutesDeps): Route[] {
  const profiles = `${ADMIN_PATH}/profiles`;
  const route = (method: Route['method'], path: string, run: (call: HttpCall) => Promise<HttpReply>): Route => ({
    method,
    path,
    needs: method === 'GET' ? 'view' : 'operate',
    run: (call) => run(call).catch(asProfileProblem),
  });
  return [
    route('GET', profiles, () => list(deps)),
    route('POST', profiles, (call) => create(deps, call)),
    route('GET', `${profiles}/{id}`, (call) => get(deps, call)),
    route('PUT', `${profiles}/{id}`, (call) => replace(deps, call)),
    route('DELETE', `${profiles}/{id}`, (call) => remove(deps, call)),
  ];
}

async function list({ profiles }: ProfilesRoutesDeps): Promise<HttpReply> {
  const [{ epoch, revision, records }, origins] = await Promise.all([profiles.list(), profiles.origins()]);
  const shown = records.map((profile) => ({ ...profile, origin: origins.get(profile.name) ?? '' }));
  return jsonReply(200, { revision, epoch, profiles: shown });
}

async function get({ profiles }: ProfilesRoutesDeps, { id }: HttpCall): Promise<HttpReply> {
  const profile = await profiles.get(id);
  if (profile === null) throw missing();
  const origin = (await profiles.origins()).get(id) ?? '';
  return jsonReply(200, { ...profile, origin }, { etag: etag(profile.mod_revision) });
}

async function create(deps: ProfilesRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const input = await contentOf(call);
  const id = typeof input.name === 'string' ? input.name : '';
  return write(deps, call.caller, { id, input: () => input, strict: deps.strict, ifModRevision: 0 });
}

async function replace(deps: ProfilesRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const condition = writeCondition(call.headers);
  const body = await contentOf(call);
  if (body.name !== undefined && body.name !== call.id) {
    throw new InvalidRecord([{ path: 'name', message: 'does not match the path' }]);
  }
  return conditional(condition, () =>
    write(deps, call.caller, {
      id: call.id,
      input: (stored) => {
        if (condition.kind === 'exists' && stored === null) throw missing();
        return { ...body, name: call.id };
      },
      strict: deps.strict,
      ...(condition.kind === 'absent' ? { ifModRevision: 0 } : {}),
      ...(condition.kind === 'at_revision' ? { ifModRevision: condition.modRevision } : {}),
    }),
  );
}

async function remove({ profiles, metrics, log }: ProfilesRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const condition = writeCondition(call.headers);
  if (!profiles.kind.isId(call.id)) throw missing();
  const options = condition.kind === 'at_revision' ? { ifModRevision: condition.modRevision } : {};
  return conditional(condition, async () => {
    const startedAt = performance.now();
    const revision = await profiles.as(call.caller).remove(call.id, options);
    metrics.writeSeconds.record((performance.now() - startedAt) / 1000);
    log('info', 'delete', { profile: call.id, revision, via: 'http' });
    return jsonReply(200, { revision });
  });
}

async function write(deps: ProfilesRoutesDeps, caller: Caller, request: RecordWrite<McpProfile>): Promise<HttpReply> {
  const startedAt = performance.now();
  const { record, revision, created, changed, warnings } = await writeRecord(deps.profiles.as(caller), request);
  deps.metrics.writeSeconds.record((performance.now() - startedAt) / 1000);
  const { name, mod_revision: modRevision } = record;
  if (changed) deps.log('info', 'upsert', { profile: name, revision, via: 'http' });
  const origin = changed ? DEFAULT_ORIGIN : ((await deps.profiles.origins()).get(name) ?? '');
  return jsonReply(
    created ? 201 : 200,
    { ...record, origin, changed, warnings: warnings.map(fieldError) },
    {
      etag: etag(modRevision),
      ...(created ? { location: `${ADMIN_PATH}/profiles/${encodeURIComponent(name)}` } : {}),
    },
  );
}

async function contentOf(call: HttpCall) {
  const body = withoutAddedFields(await jsonBody(call, MAX_PROFILE_BODY_BYTES));
  const { updated_at_ms: _updated, mod_revision: _revision, ...content } = body;
  return content;
}

/** What a store says of servers has names of its own for profiles. */
function asProfileProblem(error: unknown): never {
  if (error instanceof StoreError && error.code === 'not_found') throw missing();
  if (error instanceof StoreError && error.code === 'already_exists') {
    throw new HttpProblem(409, 'profile-exists', error.message);
  }
  throw error;
}

function missing(): HttpProblem {
  return new HttpProblem(404, 'no-such-profile', 'there is no such profile');
}
