import { readdir } from 'node:fs/promises';
import { errorCode } from '../../../base/error-text.ts';
import { idOf, type RecordKind, type StoreStamps } from '../../records/record-kind.ts';
import { type DirectoryProblem, OUTSIDE, problem, readRecordFile } from './directory-file.ts';

export interface ScannedRecord<R> {
  readonly file: string;
  readonly record: R;
}

export interface DirectoryScan<R> {
  /** One for each id. */
  readonly records: readonly ScannedRecord<R>[];
  /** Names of the files that are there and cannot be used. */
  readonly badFiles: ReadonlySet<string>;
  /** Servers or profiles that bad files were meant for, as far as they tell. */
  readonly badIds: ReadonlySet<string>;
  readonly problems: readonly DirectoryProblem[];
}

export interface ScanOptions {
  readonly strict: boolean;
  /** A directory that is not there is an empty one. @default false */
  readonly optional?: boolean;
}

/** Reads every record file of a directory. Rejects only when the directory itself cannot be read. */
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

/** Not hidden, and not what an editor leaves beside the file it writes. */
function isRecordFileName(name: string): boolean {
  if (!/\.(?:toml|json)$/.test(name)) return false;
  return !/^[.~]/.test(name) && !/\.(?:swp|tmp)\./.test(name);
}
