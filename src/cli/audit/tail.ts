import { statSync } from 'node:fs';
import { compilePattern } from '../../agent/policy/pattern.ts';
import { AuditFollower } from '../../server/audit/follow.ts';
import { parseLine, readLines } from '../../server/audit/reader.ts';
import { rotatedFiles } from '../../server/audit/rotation.ts';
import { durationOf } from '../duration.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { UsageError } from '../usage-error.ts';
import { type TailValues, tailFlags } from './flags.ts';
import { type AuditLine, describeLine } from './line-text.ts';

export interface TailFlags {
  readonly follow: boolean;
  readonly lines: number;
  readonly matches: (line: AuditLine) => boolean;
}

const MAX_LINES = 1_000_000;

/** @throws UsageError */
export function parseTailFlags(values: Partial<TailValues>, now: Date): TailFlags {
  const exact = (field: string, wanted: string | undefined) => (line: AuditLine) =>
    wanted === undefined || line[field] === wanted;
  const like = (field: string, pattern: string | undefined) => {
    const matches = pattern === undefined ? null : compilePattern(pattern);
    return (line: AuditLine) => matches === null || (typeof line[field] === 'string' && matches(line[field]));
  };
  const since = values.since === undefined ? null : parseSince(values.since, now);
  const tests = [
    exact('server_id', values.server),
    like('tool_name', values.tool),
    exact('session_id', values.session),
    exact('task', values.task),
    exact('instance', values.instance),
    either(like('event', values.event), like('of', values.event)),
    exact('status', values.status),
    (line: AuditLine) => since === null || String(line.ts) >= since,
  ];
  return {
    follow: values.follow ?? false,
    lines: parseLines(values.lines ?? tailFlags.lines.default),
    matches: (line) => tests.every((test) => test(line)),
  };
}

/** A line that counts folded events matches like the events it counts. */
const either =
  (...tests: readonly ((line: AuditLine) => boolean)[]) =>
  (line: AuditLine) =>
    tests.some((test) => test(line));

function parseLines(given: string): number {
  if (given === 'all') return MAX_LINES;
  const lines = Number(given);
  if (/^\d+$/.test(given) && lines <= MAX_LINES) return lines;
  throw new UsageError(`-n: expected a whole number from 0 to ${MAX_LINES}, or "all", found ${JSON.stringify(given)}`);
}

/** In the format of the audit log, so that times compare as strings. */
function parseSince(given: string, now: Date): string {
  const span = durationOf(given);
  const ms = span === null ? Date.parse(given) : now.getTime() - span;
  if (Number.isNaN(ms) || (span === null && !/^\d{4}-/.test(given))) {
    throw new UsageError(
      `--since: expected a time such as 2026-01-31T08:00:00Z, or 90s, 15m, 2h, 3d; found ${JSON.stringify(given)}`,
    );
  }
  return new Date(ms).toISOString();
}

/** Poll interval of a followed file. */
const POLL_MS = 200;

export interface TailOutput {
  readonly print: (text: string) => unknown;
  readonly json: boolean;
  readonly colours: boolean;
}

/** `spear audit tail`; with --follow until stdout closes or a signal ends it. */
export async function tailAudit(path: string, flags: TailFlags, output: TailOutput): Promise<number> {
  try {
    const follower = flags.follow ? new AuditFollower(path) : null;
    for (const text of lastLines(path, flags, follower)) show(text, output);
    if (follower) await follow(follower, flags, output);
    return spearExitCodes.ok;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined || error instanceof UsageError) throw error;
    throw new UsageError(`${path}: cannot be read (${code})`);
  }
}

/** The last matching lines before the follower's start, oldest first. Reads only the files it needs. */
function lastLines(path: string, { lines, matches }: TailFlags, follower: AuditFollower | null): string[] {
  let found: string[] = [];
  let newer = follower !== null;
  for (const file of [...rotatedFiles(path), path].reverse()) {
    const wanted = lines - found.length;
    if (wanted <= 0) break;
    const isStart = newer && statSync(file, { throwIfNoEntry: false })?.ino === follower?.start?.inode;
    if (newer && !isStart) continue;
    newer = false;
    const here: string[] = [];
    for (const { text } of readLines(file, isStart ? follower?.start?.position : undefined)) {
      const line = parseLine(text);
      if (line === null || !matches(line)) continue;
      here.push(text);
      if (here.length >= 2 * wanted + 1_000) here.splice(0, here.length - wanted);
    }
    found = [...here.slice(-wanted), ...found];
  }
  return found;
}

async function follow(follower: AuditFollower, { matches }: TailFlags, output: TailOutput): Promise<void> {
  const gone = new AbortController();
  process.stdout.once('error', () => gone.abort());
  while (!gone.signal.aborted) {
    for (const text of follower.read()) {
      const line = parseLine(text);
      if (line !== null && matches(line)) show(text, output);
    }
    await new Promise<void>((resolve) => setTimeout(resolve, POLL_MS));
  }
  follower.close();
}

function show(text: string, { print, json, colours }: TailOutput): void {
  const line = parseLine(text);
  if (line !== null) print(json ? `${text.trimStart()}\n` : `${describeLine(line, colours)}\n`);
}
