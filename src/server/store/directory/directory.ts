import { canonicalJson, type JsonValue } from '../../../base/json.ts';
import { Turns } from '../../../base/turns.ts';
import { idOf, type StoreStamps, sameContent } from '../../records/record-kind.ts';
import { MAX_TRIES } from '../record-write.ts';
import { type RegistryStore, type StoreChange, wasOvertaken } from '../store.ts';
import type { DirectoryProblem } from './directory-file.ts';
import { type DirectoryScan, type ScanOptions, scanDirectory } from './directory-scan.ts';

/** The origin of a record that was read from a file of the directory. */
export const DIRECTORY_ORIGIN = 'directory:';

export interface PlannedUpsert<R = unknown> {
  readonly action: 'create' | 'update';
  readonly id: string;
  readonly file: string;
  /** Names of the fields that an update changes; never their values. */
  readonly fields: readonly string[];
  readonly record: R;
  /** Of the stored record; 0 where there is none. */
  readonly modRevision: number;
}

export interface PlannedDelete {
  readonly action: 'delete';
  readonly id: string;
  /** The file it came from, which is gone. */
  readonly file: string;
  readonly modRevision: number;
}

export interface DirectoryPlan<R = unknown> {
  readonly changes: readonly (PlannedUpsert<R> | PlannedDelete)[];
  /** Ids whose stored record is what the directory says already. */
  readonly unchanged: readonly string[];
  /** How many stored records came from the directory. */
  readonly owned: number;
}

export interface DirectoryOptions extends ScanOptions {
  /** Find out what would change and change nothing. */
  readonly dryRun: boolean;
  /** Remove whatever is no longer there, also when that is most of it. @default false */
  readonly allowMassRemoval?: boolean;
}

export interface DirectoryResult {
  readonly outcome: 'applied' | 'dry_run' | 'refused';
  /** Why the whole directory was refused; null where it was not. */
  readonly refusal: string | null;
  readonly plan: DirectoryPlan;
  readonly problems: readonly DirectoryProblem[];
}

// A directory that lost this much is more likely not mounted, or mounted half, than meant.
const MASS_REMOVAL_SHARE = 0.25;
const MASS_REMOVAL_MIN = 4;

/** Where the profiles of a directory of servers are: one file each, like the servers. */
export const PROFILES_FOLDER = 'profiles';

/** Brings the store in line with a directory, at start and at every reload: all of it, or nothing. */
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
      // Somebody wrote one of the records since the plan was made: what they wrote may change it.
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
  const turns = new Turns();
  const [{ records }, origins] = await Promise.all([store.list(), store.origins()]);
  const stored = new Map(records.map((record) => [idOf(store.kind, record), record]));
  const changes: (PlannedUpsert<R> | PlannedDelete)[] = [];
  const unchanged: string[] = [];
  for (const { file, record } of scan.records) {
    if (turns.over) await turns.next();
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
    // A file that broke is still there, and so is what it last said.
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
