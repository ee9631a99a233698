import { canonicalJson, type JsonValue } from '../base/json.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { sameContent } from '../protocol/record-compare.ts';
import type { DirectoryProblem } from './directory-file.ts';
import { type DirectoryScan, scanDirectory } from './directory-scan.ts';
import { type RegistryStore, StoreError } from './store/store.ts';

/** The origin of a record that was read from a file of the directory. */
const DIRECTORY_ORIGIN = 'directory:';

export interface PlannedUpsert {
  readonly action: 'create' | 'update';
  readonly serverId: string;
  readonly file: string;
  /** Names of the fields that an update changes; never their values. */
  readonly fields: readonly string[];
  readonly record: McpServerRecord;
}

export interface PlannedDelete {
  readonly action: 'delete';
  readonly serverId: string;
  /** The file it came from, which is gone. */
  readonly file: string;
  readonly modRevision: number;
}

export interface DirectoryPlan {
  readonly changes: readonly (PlannedUpsert | PlannedDelete)[];
  /** Servers whose stored record is what the directory says already. */
  readonly unchanged: readonly string[];
}

export interface DirectoryOptions {
  /** A bad file or an unknown field refuses everything. */
  readonly strict: boolean;
  /** Find out what would change and change nothing. */
  readonly dryRun: boolean;
}

export interface DirectoryResult {
  readonly outcome: 'applied' | 'dry_run' | 'refused';
  readonly plan: DirectoryPlan;
  readonly problems: readonly DirectoryProblem[];
}

/** Brings the store in line with a directory, at start and at every reload. */
export async function loadDirectory(
  store: RegistryStore,
  directory: string,
  options: DirectoryOptions,
): Promise<DirectoryResult> {
  const scan = await scanDirectory(directory, options);
  const plan = await planChanges(store, scan);
  const { problems } = scan;
  if (options.strict && problems.some((problem) => problem.severity === 'error')) {
    return { outcome: 'refused', plan, problems };
  }
  if (options.dryRun) return { outcome: 'dry_run', plan, problems };
  for (const change of plan.changes) {
    if (change.action === 'delete') await removeUnlessChanged(store, change);
    else await store.upsert(change.record, { origin: DIRECTORY_ORIGIN + change.file });
  }
  return { outcome: 'applied', plan, problems };
}

async function planChanges(store: RegistryStore, scan: DirectoryScan): Promise<DirectoryPlan> {
  const { servers } = await store.list();
  const stored = new Map(servers.map((record) => [record.server_id, record]));
  const changes: (PlannedUpsert | PlannedDelete)[] = [];
  const unchanged: string[] = [];
  for (const { file, record } of scan.records) {
    const serverId = record.server_id;
    const current = stored.get(serverId);
    if (current === undefined) changes.push({ action: 'create', serverId, file, fields: [], record });
    else if (sameContent(current, record)) unchanged.push(serverId);
    else changes.push({ action: 'update', serverId, file, fields: changedFields(current, record), record });
  }

  const present = new Set([...scan.records.map(({ record }) => record.server_id), ...scan.badServerIds]);
  for (const [serverId, origin] of await store.origins()) {
    if (present.has(serverId) || !origin.startsWith(DIRECTORY_ORIGIN)) continue;
    const file = origin.slice(DIRECTORY_ORIGIN.length);
    const current = stored.get(serverId);
    // A file that broke is still there, and so is what it last said.
    if (current === undefined || scan.badFiles.has(file)) continue;
    changes.push({ action: 'delete', serverId, file, modRevision: current.mod_revision });
  }
  return { changes, unchanged };
}

/** Names of the fields in which two records differ. */
export function changedFields(before: McpServerRecord, after: McpServerRecord): string[] {
  const old: Record<string, unknown> = { ...before };
  return Object.entries(after)
    .filter(([name]) => name !== 'updated_at_ms' && name !== 'mod_revision')
    .filter(([name, value]) => canonicalJson(value as JsonValue) !== canonicalJson(old[name] as JsonValue))
    .map(([name]) => name);
}

/** Somebody who wrote the record since the plan was made has taken it over. */
async function removeUnlessChanged(store: RegistryStore, change: PlannedDelete): Promise<void> {
  try {
    await store.remove(change.serverId, { ifModRevision: change.modRevision });
  } catch (error) {
    if (error instanceof StoreError && (error.code === 'not_found' || error.code === 'revision_mismatch')) return;
    throw error;
  }
}

export function describeProblem(directory: string, problem: DirectoryProblem): string {
  const place = `${directory}/${problem.file}${problem.line === null ? '' : `:${problem.line}`}`;
  return problem.field === null ? `${place}: ${problem.message}` : `${place}: ${problem.field} ${problem.message}`;
}
