import { compilePattern } from '../../policy/pattern.ts';
import { UsageError } from '../usage-error.ts';
import { type TailValues, tailFlags } from './flags.ts';

/** A line of an audit log, of any event. */
export type AuditLine = Readonly<Record<string, unknown>>;

export interface TailFlags {
  readonly follow: boolean;
  readonly lines: number;
  readonly matches: (line: AuditLine) => boolean;
}

const MAX_LINES = 1_000_000;
const units: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

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
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(given) ?? [];
  const ms = count === undefined ? Date.parse(given) : now.getTime() - Number(count) * (units[unit ?? ''] ?? 0);
  if (Number.isNaN(ms) || (count === undefined && !/^\d{4}-/.test(given))) {
    throw new UsageError(
      `--since: expected a time such as 2026-01-31T08:00:00Z, or 90s, 15m, 2h, 3d; found ${JSON.stringify(given)}`,
    );
  }
  return new Date(ms).toISOString();
}
