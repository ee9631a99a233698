/**
 * Synchronizes a store with a directory of record files, at start and at every reload.
 *
 * Invariants
 * - All changes of a reload are applied, or none.
 * - A record is removed only if it came from the directory and its file is gone. A file that cannot be parsed keeps its record.
 * - A reload that would remove a large share of the records is refused, unless that is allowed.
 * - Records that were written through the API are never removed here.
 *
 * The caller runs one reload at a time; concurrent writes by API clients are handled by a new plan.
 */
import { readdir } from 'node:fs/promises';
import { errorCode } from '../../../base/errors.ts';
import { canonicalJson, type JsonValue } from '../../../base/json.ts';
import { TimeSlice } from '../../../base/timing.ts';
import { idOf, type RecordKind, type StoreStamps, sameContent } from '../../records/record-kind.ts';
import { MAX_TRIES } from '../record-write.ts';
import { type RegistryStore, type StoreChange, wasOvertaken } from '../store.ts';
import { type DirectoryProblem, OUTSIDE, problem, readRecordFile } from './directory-file.ts';

/** The origin of a record that was read from a file of the directory. */
export const DIRECTORY_ORIGIN = 'directory:';

export interface PlannedUpsert<R = unknown> {
  readonly action: 'create' | 'update';
  readonly id: string;
  readonly file: string;
  /** Names of the fields that an update changes; never their values. */
  readonly fields: readonly string[];
  readonly record: R;
  /** The revision of the stored record; 0 if there is none. */
  readonly modRevision: number;
}

export interface PlannedDelete {
  readonly action: 'delete';
  readonly id: string;
  /** The file that it came from, which was removed. */
  readonly file: string;
  readonly modRevision: number;
}

export interface DirectoryPlan<R = unknown> {
  readonly changes: readonly (PlannedUpsert<R> | PlannedDelete)[];
  /** Ids whose stored record already equals its file. */
  readonly unchanged: readonly string[];
  /** Number of stored records that came from the directory. */
  readonly owned: number;
}

export interface DirectoryOptions extends ScanOptions {
  /** Plan the changes without applying them. */
  readonly dryRun: boolean;
  /** Remove records of removed files, even most of them. @default false */
  readonly allowMassRemoval?: boolean;
}

export interface DirectoryResult {
  readonly outcome: 'applied' | 'dry_run' | 'refused';
  /** Why the whole directory was refused; null if it was not. */
  readonly refusal: string | null;
  readonly plan: DirectoryPlan;
  readonly problems: readonly DirectoryProblem[];
}

// A directory that lost this share is more likely not mounted, or partly mounted, than changed on purpose.
const MASS_REMOVAL_SHARE = 0.25;
const MASS_REMOVAL_MIN = 4;

/** Subdirectory with one file for each profile. */
export const PROFILES_FOLDER = 'profiles';

/** Applies a directory to the store: all changes or none. */
export async function loadDirectory<R extends StoreStamps>(
  store: RegistryStore<R>,
  directory: string,
  options: DirectoryOptions,
): Promise<DirectoryResult> {
  const scan = await scanDirectory(store.kind, directory, options);
  const { problems } = scan;
  for (let tries = 1; ; tries++) {
    const plan = await planChanges(store, scan);
    const refusal = refusalOf(store.kind.name, directory, scan, plan, options);
    if (refusal !== null) return { outcome: 'refused', refusal, plan, problems };
    if (options.dryRun) return { outcome: 'dry_run', refusal, plan, problems };
    try {
      await store.apply(plan.changes.map((change) => storeChange(change)));
      return { outcome: 'applied', refusal, plan, problems };
    } catch (error) {
      // A concurrent write changed one of the records after the plan was made, so plan again.
      if (tries >= MAX_TRIES || !wasOvertaken(error)) throw error;
    }
  }
}

function refusalOf(
  kind: string,
  directory: string,
  scan: DirectoryScan<unknown>,
  { changes, owned }: DirectoryPlan,
  options: DirectoryOptions,
): string | null {
  if (options.strict && scan.problems.some((problem) => problem.severity === 'error')) {
    return `${directory} has invalid files, which --strict rejects`;
  }
  const removed = changes.filter(({ action }) => action === 'delete').length;
  if (options.allowMassRemoval === true || removed === 0) return null;
  const most = removed >= MASS_REMOVAL_MIN && removed >= owned * MASS_REMOVAL_SHARE;
  if (scan.records.length > 0 && !most) return null;
  const found =
    scan.records.length === 0 ? `no longer has any ${kind}` : `no longer has ${removed} of ${owned} ${kind}s`;
  return (
    `${directory} ${found}; nothing was changed, because removing so many at once may be a mistake (is the directory mounted?); ` +
    'to remove them, use --allow-mass-removal, mcp.allow_mass_removal, or POST /reload?allow_mass_removal=true'
  );
}

function storeChange<R>(change: PlannedUpsert<R> | PlannedDelete): StoreChange<R> {
  const ifModRevision = change.modRevision;
  if (change.action === 'delete') return { remove: change.id, ifModRevision };
  return { upsert: change.record, origin: DIRECTORY_ORIGIN + change.file, ifModRevision };
}

async function planChanges<R extends StoreStamps>(
  store: RegistryStore<R>,
  scan: DirectoryScan<R>,
): Promise<DirectoryPlan<R>> {
  const slice = new TimeSlice();
  const [{ records }, origins] = await Promise.all([store.list(), store.origins()]);
  const stored = new Map(records.map((record) => [idOf(store.kind, record), record]));
  const changes: (PlannedUpsert<R> | PlannedDelete)[] = [];
  const unchanged: string[] = [];
  for (const { file, record } of scan.records) {
    if (slice.isOver) await slice.yield();
    const id = idOf(store.kind, record);
    const current = stored.get(id);
    const modRevision = current?.mod_revision ?? 0;
    if (current === undefined) changes.push({ action: 'create', id, file, fields: [], record, modRevision });
    else if (sameContent(current, record)) unchanged.push(id);
    else changes.push({ action: 'update', id, file, fields: changedFields(current, record), record, modRevision });
  }

  const present = new Set([...scan.records.map(({ record }) => idOf(store.kind, record)), ...scan.badIds]);
  let owned = 0;
  for (const [id, origin] of origins) {
    if (!origin.startsWith(DIRECTORY_ORIGIN)) continue;
    owned += 1;
    const file = origin.slice(DIRECTORY_ORIGIN.length);
    const current = stored.get(id);
    // A file that became invalid keeps its last valid record.
    if (present.has(id) || current === undefined || scan.badFiles.has(file)) continue;
    changes.push({ action: 'delete', id, file, modRevision: current.mod_revision });
  }
  return { changes, unchanged, owned };
}

/** Names of the fields in which two records differ. */
export function changedFields<R extends object>(before: R, after: R): string[] {
  const old = new Map<string, unknown>(Object.entries(before));
  return Object.entries(after)
    .filter(([name]) => name !== 'updated_at_ms' && name !== 'mod_revision')
    .filter(([name, value]) => canonicalJson(value as JsonValue) !== canonicalJson(old.get(name) as JsonValue))
    .map(([name]) => name);
}

export function describeProblem(directory: string, problem: DirectoryProblem): string {
  const place = `${directory}/${problem.file}${problem.line === null ? '' : `:${problem.line}`}`;
  return problem.field === null ? `${place}: ${problem.message}` : `${place}: ${problem.field} ${problem.message}`;
}

export interface ScannedRecord<R> {
  readonly file: string;
  readonly record: R;
}

export interface DirectoryScan<R> {
  /** At most one for each id. */
  readonly records: readonly ScannedRecord<R>[];
  /** Names of files that are present and cannot be used. */
  readonly badFiles: ReadonlySet<string>;
  /** Ids that invalid files name, as far as known. */
  readonly badIds: ReadonlySet<string>;
  readonly problems: readonly DirectoryProblem[];
}

export interface ScanOptions {
  readonly strict: boolean;
  /** A missing directory counts as empty. @default false */
  readonly optional?: boolean;
}

/** Reads every record file of a directory. Rejects only if the directory itself cannot be read. */
export async function scanDirectory<R extends StoreStamps>(
  kind: RecordKind<R>,
  directory: string,
  options: ScanOptions,
): Promise<DirectoryScan<R>> {
  const records = new Map<string, ScannedRecord<R>>();
  const badFiles = new Set<string>();
  const badIds = new Set<string>();
  const problems: DirectoryProblem[] = [];
  for (const file of await recordFileNames(kind, directory, options)) {
    const read = await readRecordFile(kind, directory, file, options.strict);
    if (read.kind === 'gone') continue;
    if (read.kind === 'outside') {
      problems.push(problem('warning', file, null, null, `${OUTSIDE} and is skipped`));
      continue;
    }
    problems.push(...read.problems);
    if (read.kind === 'bad') {
      badFiles.add(file);
      if (read.id !== null) badIds.add(read.id);
      continue;
    }
    const id = idOf(kind, read.record);
    const earlier = records.get(id);
    if (earlier !== undefined) {
      const message = `"${id}" is also defined in ${earlier.file}; ${file} is later in name order and is used`;
      problems.push(problem('warning', file, read.idLine, kind.idField, message));
    }
    records.set(id, { file, record: read.record });
  }
  return { records: [...records.values()], badFiles, badIds, problems };
}

async function recordFileNames<R extends StoreStamps>(
  kind: RecordKind<R>,
  directory: string,
  { optional = false }: ScanOptions,
): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch((error: unknown) => {
    const code = errorCode(error) ?? String(error);
    if (optional && code === 'ENOENT') return [];
    throw new Error(`the MCP ${kind.name} directory ${directory} cannot be read (${code})`);
  });
  return entries
    .filter((entry) => isRecordFileName(entry.name) && (entry.isFile() || entry.isSymbolicLink()))
    .map((entry) => entry.name)
    .sort();
}

/** Skips hidden files and backup files of editors. */
function isRecordFileName(name: string): boolean {
  if (!/\.(?:toml|json)$/.test(name)) return false;
  return !/^[.~]/.test(name) && !/\.(?:swp|tmp)\./.test(name);
}
