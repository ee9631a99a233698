import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { text as readAll } from 'node:stream/consumers';
import { parseToml } from '../../config/toml.ts';
import type { McpServerRecord } from '../../protocol/record.ts';
import { parseRecord } from '../../protocol/record-parse.ts';
import { describeProblem } from '../../sms/directory.ts';
import { readRecordFile } from '../../sms/directory-file.ts';
import { scanDirectory } from '../../sms/directory-scan.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { type SpearCommand, type SpearContext, serverPath } from '../spear/command.ts';
import { UsageError } from '../usage-error.ts';

interface ReadRecords {
  readonly records: readonly McpServerRecord[];
  /** Each with its place; `errors` keep everything from being sent. */
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** Creates or replaces servers from files. Nothing is sent unless every file can be used. */
export const applyServers: SpearCommand = async (context) => {
  const { flags, say } = context;
  if (flags.args.length === 0) throw new UsageError('usage: spear servers apply PATH... (a file, a directory, or -)');
  const read = await Promise.all(flags.args.map(readPath));
  for (const warning of read.flatMap(({ warnings }) => warnings)) say(`warning: ${warning}`);
  const errors = read.flatMap((one) => one.errors);
  for (const error of errors) say(error);
  if (errors.length > 0) return spearExitCodes.failed;
  return send(
    context,
    read.flatMap(({ records }) => records),
  );
};

async function send({ flags, client, print }: SpearContext, records: readonly McpServerRecord[]): Promise<number> {
  const applied: { server_id: string; outcome: string; mod_revision: unknown }[] = [];
  for (const { updated_at_ms: _updated, mod_revision: _revision, ...record } of records) {
    const { status, value } = await client.request('PUT', serverPath(record.server_id), {
      body: JSON.stringify(record),
      contentType: 'application/json',
    });
    const { changed, mod_revision } = value as { changed: boolean; mod_revision: number };
    const outcome = status === 201 ? 'created' : changed ? 'updated' : 'unchanged';
    applied.push({ server_id: record.server_id, outcome, mod_revision });
    if (!flags.json) print(`${record.server_id} ${outcome}\n`);
  }
  if (flags.json) print(`${JSON.stringify({ servers: applied })}\n`);
  return spearExitCodes.ok;
}

async function readPath(path: string): Promise<ReadRecords> {
  if (path === '-') return readStandardInput();
  const found = await stat(path).catch(() => null);
  if (found === null) return { records: [], errors: [`${path}: there is no such file`], warnings: [] };
  if (found.isDirectory()) {
    const { records, problems } = await scanDirectory(path, { strict: false });
    return { records: records.map(({ record }) => record), ...sorted(path, problems) };
  }
  if (!/\.(?:toml|json)$/.test(path))
    return { records: [], errors: [`${path}: expected .toml or .json`], warnings: [] };
  const file = await readRecordFile(dirname(path), basename(path), false);
  if (file.kind === 'gone') return { records: [], errors: [`${path}: there is no such file`], warnings: [] };
  return { records: file.kind === 'good' ? [file.record] : [], ...sorted(dirname(path), file.problems) };
}

function sorted(directory: string, problems: Awaited<ReturnType<typeof scanDirectory>>['problems']) {
  const of = (severity: 'error' | 'warning') =>
    problems.filter((problem) => problem.severity === severity).map((problem) => describeProblem(directory, problem));
  return { errors: of('error'), warnings: of('warning') };
}

async function readStandardInput(): Promise<ReadRecords> {
  const text = await readAll(process.stdin);
  let input: unknown;
  try {
    input = text.trimStart().startsWith('{') ? JSON.parse(text) : parseToml(text);
  } catch {
    return { records: [], errors: ['stdin: neither valid JSON nor valid TOML'], warnings: [] };
  }
  const parsed = parseRecord(input, { strict: false, fromFile: true });
  const line = ({ path, message }: { path: string; message: string }) => `stdin: ${path} ${message}`;
  if (!parsed.ok) return { records: [], errors: parsed.issues.map(line), warnings: [] };
  return { records: [parsed.record], errors: [], warnings: parsed.warnings.map(line) };
}
