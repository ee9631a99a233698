import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { text as readAll } from 'node:stream/consumers';
import { parseToml } from '../../config/toml.ts';
import type { McpServerRecord } from '../../protocol/record.ts';
import { parseRecord } from '../../protocol/record-parse.ts';
import { describeProblem } from '../../sms/directory.ts';
import { OUTSIDE, readRecordFile } from '../../sms/directory-file.ts';
import { scanDirectory } from '../../sms/directory-scan.ts';
import { spearExitCodes } from '../exit-codes.ts';
import type { SpearCommand, SpearContext } from '../spear/command.ts';
import { type SmsRequest, SmsRequestError } from '../spear/sms-client.ts';
import { UsageError } from '../usage-error.ts';
import { IMPORT_PATH, type ImportAnswer, importAnswer } from './import.ts';

interface ReadRecords {
  readonly records: readonly McpServerRecord[];
  /** Each with its place; `errors` keep everything from being sent. */
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

const MAX_TRIES = 5;
const outcomes = { create: 'created', update: 'updated', unchanged: 'unchanged' } as const;

/** Creates or replaces servers from files, all or none. Nothing is sent unless every file can be used. */
export const applyServers: SpearCommand = async (context) => {
  const { flags, say } = context;
  if (flags.args.length === 0) throw new UsageError('usage: spear servers apply PATH... (a file, a directory, or -)');
  const read = await Promise.all(flags.args.map(readPath));
  for (const warning of read.flatMap(({ warnings }) => warnings)) say(`warning: ${warning}`);
  const errors = read.flatMap((one) => one.errors);
  for (const error of errors) say(error);
  if (errors.length > 0) return spearExitCodes.failed;
  const records = read.flatMap((one) => one.records);
  const ids = records.map((record) => record.server_id);
  const twice = ids.find((id, index) => ids.indexOf(id) !== index);
  if (twice !== undefined) throw new UsageError(`the server "${twice}" is given twice; which one is meant?`);
  return records.length === 0 ? spearExitCodes.ok : send(context, records);
};

/** The registry takes all of them or none. */
async function send({ flags, client, print }: SpearContext, records: readonly McpServerRecord[]): Promise<number> {
  const body = JSON.stringify({
    servers: records.map(({ updated_at_ms: _updated, mod_revision: _revision, ...record }) => record),
  });
  const { servers } = await planAndApply(client, { body, contentType: 'application/json' });
  const applied = servers.map(({ action, server_id, mod_revision }) => ({
    server_id,
    outcome: outcomes[action],
    mod_revision,
  }));
  if (flags.json) print(`${JSON.stringify({ servers: applied })}\n`);
  else for (const { server_id, outcome } of applied) print(`${server_id} ${outcome}\n`);
  return spearExitCodes.ok;
}

/** Somebody may change the registry between the plan and its carrying out; what was asked for is still meant then. */
async function planAndApply(client: SpearContext['client'], request: SmsRequest): Promise<ImportAnswer> {
  for (let tries = 1; ; tries++) {
    const { plan } = importAnswer(await client.request('POST', IMPORT_PATH, request));
    try {
      return importAnswer(await client.request('POST', `${IMPORT_PATH}?apply=${plan}`, request));
    } catch (error) {
      const overtaken = error instanceof SmsRequestError && error.problem?.status === 412;
      if (!overtaken || tries >= MAX_TRIES) throw error;
    }
  }
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
  if (file.kind === 'outside') return { records: [], errors: [`${path}: ${OUTSIDE}`], warnings: [] };
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
