import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { text as readAll } from 'node:stream/consumers';
import { parseToml } from '../config/document.ts';
import { idOf, type RecordKind, type StoreStamps } from '../server/records/record-kind.ts';
import { describeProblem, scanDirectory } from '../server/store/directory/directory.ts';
import { type DirectoryProblem, OUTSIDE, readRecordFile } from '../server/store/directory/directory-file.ts';
import { UsageError } from './exit-codes.ts';
import { bounded, MAX_LISTED } from './say.ts';
import type { SpearContext } from './spear/command.ts';

interface ReadRecords<R> {
  readonly records: readonly R[];
  /** Each with file and line; with `errors` nothing is sent. */
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** The servers or profiles of all given files; null: one is invalid, and the reason was printed. */
export async function recordsOf<R extends StoreStamps>(
  kind: RecordKind<R>,
  { args, say }: Pick<SpearContext, 'args' | 'say'>,
): Promise<readonly R[] | null> {
  const read = await Promise.all(args.map((path) => readPath(kind, path)));
  for (const warning of bounded(read.flatMap(({ warnings }) => warnings))) say(`warning: ${warning}`);
  const errors = read.flatMap((one) => one.errors);
  for (const error of bounded(errors)) say(error);
  if (errors.length > 0) return null;
  const records = read.flatMap((one) => one.records);
  const ids = new Set<string>();
  for (const id of records.map((record) => idOf(kind, record))) {
    if (ids.has(id)) throw new UsageError(`the ${kind.name} "${id}" is given twice`);
    ids.add(id);
  }
  return records;
}

/** A line per name where there are few, counts where there are many. */
export function appliedText(noun: string, applied: readonly (readonly [name: string, outcome: string])[]): string {
  if (applied.length <= MAX_LISTED) return applied.map(([name, outcome]) => `${name} ${outcome}\n`).join('');
  const count = (wanted: string) => `${applied.filter(([, outcome]) => outcome === wanted).length} ${wanted}`;
  return `${applied.length} ${noun}s: ${['created', 'updated', 'unchanged'].map(count).join(', ')}\n`;
}

/** Without the fields that the store sets. */
export function contentOf<R extends StoreStamps>(record: R) {
  const { updated_at_ms: _updated, mod_revision: _revision, ...content } = record;
  return content;
}

async function readPath<R extends StoreStamps>(kind: RecordKind<R>, path: string): Promise<ReadRecords<R>> {
  if (path === '-') return readStandardInput(kind);
  const failed = (message: string) => ({ records: [], errors: [`${path}: ${message}`], warnings: [] });
  const found = await stat(path).catch(() => null);
  if (found === null) return failed('no such file');
  if (found.isDirectory()) {
    const { records, problems } = await scanDirectory(kind, path, { strict: false });
    return { records: records.map(({ record }) => record), ...sorted(path, problems) };
  }
  if (!/\.(?:toml|json)$/.test(path)) return failed('expected .toml or .json');
  const file = await readRecordFile(kind, dirname(path), basename(path), false);
  if (file.kind === 'outside') return failed(OUTSIDE);
  if (file.kind === 'gone') return failed('no such file');
  return { records: file.kind === 'good' ? [file.record] : [], ...sorted(dirname(path), file.problems) };
}

function sorted(directory: string, problems: readonly DirectoryProblem[]) {
  const of = (severity: 'error' | 'warning') =>
    problems.filter((problem) => problem.severity === severity).map((problem) => describeProblem(directory, problem));
  return { errors: of('error'), warnings: of('warning') };
}

async function readStandardInput<R extends StoreStamps>(kind: RecordKind<R>): Promise<ReadRecords<R>> {
  const text = await readAll(process.stdin);
  let input: unknown;
  try {
    input = text.trimStart().startsWith('{') ? JSON.parse(text) : parseToml(text);
  } catch {
    return { records: [], errors: ['stdin: neither valid JSON nor valid TOML'], warnings: [] };
  }
  const parsed = kind.parse(input, { strict: false, fromFile: true });
  const line = ({ path, message }: { path: string; message: string }) => `stdin: ${path} ${message}`;
  if (!parsed.ok) return { records: [], errors: parsed.issues.map(line), warnings: [] };
  return { records: [parsed.record], errors: [], warnings: parsed.warnings.map(line) };
}
