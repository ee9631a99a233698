import { createHash } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { TimeSlice } from '../../base/timing.ts';
import { parseToml, TomlTextError } from '../../config/document.ts';
import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import { fieldError, HttpProblem, invalidRecord } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { type HttpCall, parseBody, requireContentType } from '../../server/http/route.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { unmask } from '../../server/records/mask.ts';
import { contentKey, type RecordIssue, sameContent } from '../../server/records/record-kind.ts';
import { type McpServerRecord, parseRecord } from '../../server/records/server.ts';
import { changedFields } from '../../server/store/directory/directory.ts';
import type { ApplyResult } from '../../server/store/store.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import type { RegistryMetrics } from '../registry-metrics.ts';
import { ADMIN_PATH, withoutAddedFields } from './servers-routes.ts';

export interface ImportRouteDeps {
  readonly store: AuditedStore;
  readonly strict: boolean;
  readonly metrics: RegistryMetrics;
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

export interface ImportStep {
  readonly action: 'create' | 'update' | 'unchanged';
  readonly record: McpServerRecord;
  /** Names of the fields that an update changes. */
  readonly fields: readonly string[];
  /** Of the stored record; 0 where there is none. */
  readonly modRevision: number;
}

export interface ImportPlan {
  /** The same for the same effect on the same registry. */
  readonly id: string;
  readonly steps: readonly ImportStep[];
  readonly issues: readonly RecordIssue[];
  readonly warnings: readonly RecordIssue[];
}

const PLAN_ID_CHARS = 16;
const MAX_IMPORT_RECORDS = 20_000;

/** The records of an uploaded file: one record, a list of them, or a table with a list called `servers`. */
function recordsOf(document: JsonValue): { readonly items: readonly JsonValue[]; readonly prefix: string } {
  if (Array.isArray(document)) return { items: document, prefix: '' };
  const servers = isJsonObject(document) ? document.servers : undefined;
  return Array.isArray(servers) ? { items: servers, prefix: 'servers' } : { items: [document], prefix: 'record' };
}

/** Gives the thread back to others every so often: a large file takes longer than a watcher should wait. */
export async function planImport(
  document: JsonValue,
  stored: ReadonlyMap<string, McpServerRecord>,
  options: { readonly strict: boolean },
): Promise<ImportPlan> {
  const { items, prefix } = recordsOf(document);
  const steps: ImportStep[] = [];
  const issues: RecordIssue[] = [];
  const warnings: RecordIssue[] = [];
  const seen = new Set<string>();
  const effect = createHash('sha256');
  const slice = new TimeSlice();
  if (items.length > MAX_IMPORT_RECORDS) {
    const message = `has ${items.length} servers; at most ${MAX_IMPORT_RECORDS} can be imported at once`;
    return { id: '', steps, issues: [{ path: prefix, message }], warnings };
  }
  for (const [index, item] of items.entries()) {
    if (slice.isOver) await slice.yield();
    const at = prefixer(prefix === 'record' ? '' : `${prefix}[${index}]`);
    if (!isJsonObject(item)) {
      issues.push(at({ path: '', message: 'must be an object' }));
      continue;
    }
    const before = typeof item.server_id === 'string' ? (stored.get(item.server_id) ?? null) : null;
    const { input, issues: maskIssues } = unmask(contentOf(item), before);
    const parsed = parseRecord(input, { strict: options.strict, fromFile: true });
    issues.push(...maskIssues.map(at));
    if (!parsed.ok) {
      issues.push(...parsed.issues.map(at));
      continue;
    }
    warnings.push(...parsed.warnings.map(at));
    const { record } = parsed;
    if (seen.has(record.server_id)) issues.push(at({ path: 'server_id', message: 'occurs twice in this file' }));
    seen.add(record.server_id);
    const step = stepFor(record, before);
    steps.push(step);
    effect.update(JSON.stringify([step.action, contentKey(record), step.modRevision]));
  }
  return { id: effect.digest('hex').slice(0, PLAN_ID_CHARS), steps, issues, warnings };
}

function contentOf(item: JsonObject): JsonObject {
  const { updated_at_ms: _updated, mod_revision: _revision, ...content } = withoutAddedFields(item);
  return content;
}

function stepFor(record: McpServerRecord, before: McpServerRecord | null): ImportStep {
  if (before === null) return { action: 'create', record, fields: [], modRevision: 0 };
  if (sameContent(before, record)) return { action: 'unchanged', record, fields: [], modRevision: before.mod_revision };
  return { action: 'update', record, fields: changedFields(before, record), modRevision: before.mod_revision };
}

function prefixer(prefix: string): (issue: RecordIssue) => RecordIssue {
  return ({ path, message }) => {
    const separator = prefix === '' || path === '' || path.startsWith('[') ? '' : '.';
    return { path: `${prefix}${separator}${path}`, message };
  };
}
