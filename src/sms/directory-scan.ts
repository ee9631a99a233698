import { readdir } from 'node:fs/promises';
import { errorCode } from '../base/error-text.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import { type DirectoryProblem, OUTSIDE, problem, readRecordFile } from './directory-file.ts';

export interface ScannedRecord {
  readonly file: string;
  readonly record: McpServerRecord;
}

export interface DirectoryScan {
  /** One for each server_id. */
  readonly records: readonly ScannedRecord[];
  /** Names of the files that are there and cannot be used. */
  readonly badFiles: ReadonlySet<string>;
  /** Servers that bad files were meant for, as far as they tell. */
  readonly badServerIds: ReadonlySet<string>;
  readonly problems: readonly DirectoryProblem[];
}

/** Reads every record file of a directory. Rejects only when the directory itself cannot be read. */
export async function scanDirectory(directory: string, options: { readonly strict: boolean }): Promise<DirectoryScan> {
  const records = new Map<string, ScannedRecord>();
  const badFiles = new Set<string>();
  const badServerIds = new Set<string>();
  const problems: DirectoryProblem[] = [];
  for (const file of await recordFileNames(directory)) {
    const read = await readRecordFile(directory, file, options.strict);
    if (read.kind === 'gone') continue;
    if (read.kind === 'outside') {
      problems.push(problem('warning', file, null, null, `${OUTSIDE} and is left out`));
      continue;
    }
    problems.push(...read.problems);
    if (read.kind === 'bad') {
      badFiles.add(file);
      if (read.serverId !== null) badServerIds.add(read.serverId);
      continue;
    }
    const { server_id: serverId } = read.record;
    const earlier = records.get(serverId);
    if (earlier !== undefined) {
      const message = `"${serverId}" is given in ${earlier.file} too; ${file} comes later and is used`;
      problems.push(problem('warning', file, read.serverIdLine, 'server_id', message));
    }
    records.set(serverId, { file, record: read.record });
  }
  return { records: [...records.values()], badFiles, badServerIds, problems };
}

async function recordFileNames(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch((error: unknown) => {
    const code = errorCode(error) ?? String(error);
    throw new Error(`the directory of MCP servers ${directory} cannot be read (${code})`);
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
