import type { JsonValue } from '../../base/json.ts';
import { parseToml, TomlTextError } from '../../config/document.ts';
import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import { fieldError, HttpProblem, invalidRecord } from '../../server/http/problem.ts';
import { type HttpCall, parseBody, requireContentType } from '../../server/http/route.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import type { ApplyResult } from '../../server/store/store.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import type { SmsMetrics } from '../sms-metrics.ts';
import type { Route } from './http-listener.ts';
import { type ImportPlan, planImport } from './import-plan.ts';
import { ADMIN_PATH } from './servers-routes.ts';

export interface ImportRouteDeps {
  readonly store: AuditedStore;
  readonly strict: boolean;
  readonly metrics: SmsMetrics;
  readonly log: ServiceLog;
}

const MAX_IMPORT_BYTES = 16 * 1024 * 1024;

/**
 * `POST /servers/import` takes a file and tells what it would do; the same with `?apply=PLAN`, where PLAN is the id of
 * that answer, does it, all or nothing, and refuses if it would do something else by now.
 */
export function importRoute(deps: ImportRouteDeps): Route {
  return {
    method: 'POST',
    path: `${ADMIN_PATH}/servers/import`,
    needs: 'operate',
    run: (call) => runImport(deps, call),
  };
}

async function runImport({ store, strict, metrics, log }: ImportRouteDeps, call: HttpCall): Promise<HttpReply> {
  const type = requireContentType(call, ['application/json', 'application/toml']);
  const text = await call.text(MAX_IMPORT_BYTES);
  const document = type === 'application/json' ? parseBody(text) : readToml(text);
  const { records: servers } = await store.list();
  const plan = await planImport(document, new Map(servers.map((record) => [record.server_id, record])), { strict });
  if (plan.issues.length > 0) throw invalidRecord(plan.issues);
  const wanted = call.query.get('apply');
  if (wanted === null) return jsonReply(200, planJson(plan, 'dry_run'));
  if (wanted !== plan.id) {
    const detail = 'the plan is outdated: importing the file would now make other changes; request a new plan';
    throw new HttpProblem(412, 'plan-outdated', detail);
  }
  const startedAt = performance.now();
  const { revision, records, changed } = await store
    .as(call.caller)
    .apply(plan.steps.map(({ record, modRevision }) => ({ upsert: record, ifModRevision: modRevision })));
  metrics.writeSeconds.record((performance.now() - startedAt) / 1000);
  log('info', 'import', { servers: plan.steps.length, changed, revision });
  return jsonReply(200, { ...planJson(plan, 'applied', records), revision });
}

function planJson(plan: ImportPlan, outcome: 'dry_run' | 'applied', stored: ApplyResult['records'] = []) {
  return {
    outcome,
    plan: plan.id,
    servers: plan.steps.map(({ action, record, fields }, index) => ({
      action,
      server_id: record.server_id,
      fields,
      ...(outcome === 'applied' ? { mod_revision: stored[index]?.mod_revision } : {}),
    })),
    warnings: plan.warnings.map(fieldError),
  };
}

function readToml(text: string): JsonValue {
  try {
    return parseToml(text) as JsonValue;
  } catch (error) {
    if (!(error instanceof TomlTextError)) throw error;
    throw new HttpProblem(400, 'invalid-body', `the body is not valid TOML (line ${error.line})`);
  }
}
