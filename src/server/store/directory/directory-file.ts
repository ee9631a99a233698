import { constants } from 'node:fs';
import { type FileHandle, open, realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { errorCode, errorText } from '../../../base/errors.ts';
import { isJsonObject } from '../../../base/json.ts';
import { parseToml, TomlTextError } from '../../../config/document.ts';
import type { RecordIssue, RecordKind, StoreStamps } from '../../records/record-kind.ts';
import { type FieldLines, JsonTextError, jsonFieldLines, tomlFieldLines } from './directory-lines.ts';

/** Far above any record: a larger file is not a record. */
const MAX_RECORD_FILE_BYTES = 256 * 1024;

/** Attempts to resolve a dangling link: its target may be replaced at this moment. */
const LINK_TRIES = 3;

export const OUTSIDE = 'is a symbolic link to a target outside its directory';
class OutsideLink extends Error {}

/** `file` is the name within the directory. An error means that the file is not used. */
export interface DirectoryProblem {
  readonly severity: 'error' | 'warning';
  readonly file: string;
  readonly line: number | null;
  readonly field: string | null;
  readonly message: string;
}

export type RecordFile<R> =
  | { readonly kind: 'gone' }
  /** A link to a target outside the directory, which is not followed. */
  | { readonly kind: 'outside' }
  /** `id`: the server or profile that the file names, if it names one. */
  | { readonly kind: 'bad'; readonly id: string | null; readonly problems: readonly DirectoryProblem[] }
  | {
      readonly kind: 'good';
      readonly record: R;
      readonly idLine: number | null;
      readonly problems: readonly DirectoryProblem[];
    };

export async function readRecordFile<R extends StoreStamps>(
  kind: RecordKind<R>,
  directory: string,
  file: string,
  strict: boolean,
): Promise<RecordFile<R>> {
  try {
    const text = await readText(directory, file);
    return text === null ? { kind: 'gone' } : parseText(kind, file, text, strict);
  } catch (error) {
    if (error instanceof OutsideLink) return { kind: 'outside' };
    const line = error instanceof TomlTextError || error instanceof JsonTextError ? error.line : null;
    return { kind: 'bad', id: null, problems: [problem('error', file, line, null, messageOf(error))] };
  }
}

function parseText<R extends StoreStamps>(
  kind: RecordKind<R>,
  file: string,
  text: string,
  strict: boolean,
): RecordFile<R> {
  const { value, lines } = file.endsWith('.toml') ? readToml(text) : readJson(text);
  const parsed = kind.parse(value, { strict, fromFile: true });
  const at = (severity: DirectoryProblem['severity']) => (issue: RecordIssue) =>
    problem(severity, file, lines.of(issue.path), issue.path === '' ? null : issue.path, issue.message);
  if (!parsed.ok) return { kind: 'bad', id: idIn(kind, value), problems: parsed.issues.map(at('error')) };
  const problems = parsed.warnings.map(at('warning'));
  return { kind: 'good', record: parsed.record, idLine: lines.of(kind.idField), problems };
}

function readToml(text: string): { value: unknown; lines: FieldLines } {
  return { value: parseToml(text), lines: tomlFieldLines(text) };
}

function readJson(text: string): { value: unknown; lines: FieldLines } {
  const lines = jsonFieldLines(text);
  return { value: JSON.parse(text), lines };
}

function idIn<R extends StoreStamps>({ idField, isId }: RecordKind<R>, value: unknown): string | null {
  const id = isJsonObject(value) ? value[idField] : null;
  return typeof id === 'string' && isId(id) ? id : null;
}

/** Null if the file was removed after the directory was listed. */
async function readText(directory: string, file: string): Promise<string | null> {
  const handle = await openInside(directory, file);
  if (handle === null) return null;
  try {
    const stat = await handle.stat();
    if (!stat.isFile()) throw new Error('is not a regular file');
    if (stat.size > MAX_RECORD_FILE_BYTES) {
      throw new Error(`has ${stat.size} bytes, at most ${MAX_RECORD_FILE_BYTES} are allowed`);
    }
    const bytes = Buffer.alloc(MAX_RECORD_FILE_BYTES + 1);
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, 0);
    return decode(bytes.subarray(0, bytesRead));
  } finally {
    await handle.close();
  }
}

/**
 * Opens a file, or the target of a link inside the directory. A mounted ConfigMap consists of such links, and while it is
 * replaced they dangle for a moment: that does not count as a removed file.
 */
async function openInside(directory: string, file: string): Promise<FileHandle | null> {
  const path = join(directory, file);
  const direct = await openUnfollowed(path);
  if (direct !== 'link') return direct;
  const root = await realpath(directory);
  for (let tries = 0; tries < LINK_TRIES; tries++) {
    const target = await realpath(path).catch(() => null);
    if (target === null) continue;
    if (!target.startsWith(root.endsWith(sep) ? root : root + sep)) throw new OutsideLink();
    const handle = await openUnfollowed(target);
    if (handle !== null && handle !== 'link') return handle;
  }
  throw new Error('is a symbolic link whose target is not a file');
}

/** Does not follow links, and does not block on a pipe. */
async function openUnfollowed(path: string): Promise<FileHandle | 'link' | null> {
  const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
  try {
    return await open(path, flags);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    if (codeOf(error) === 'ELOOP') return 'link';
    throw new Error(`cannot be read (${codeOf(error)})`);
  }
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Error('is not UTF-8 text');
  }
}

function messageOf(error: unknown): string {
  if (error instanceof TomlTextError) return `is ${error.message}`;
  if (error instanceof JsonTextError) return `is not valid JSON: ${error.message}`;
  return errorText(error);
}

export function problem(
  severity: DirectoryProblem['severity'],
  file: string,
  line: number | null,
  field: string | null,
  message: string,
): DirectoryProblem {
  return { severity, file, line, field, message };
}

function codeOf(error: unknown): string {
  return errorCode(error) ?? 'unknown error';
}
