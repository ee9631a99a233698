import { compilePattern } from '../../policy/pattern.ts';
import { UsageError } from '../usage-error.ts';

export const tailOptions = {
  follow: { type: 'boolean', short: 'f' },
  lines: { type: 'string', short: 'n' },
  server: { type: 'string' },
  tool: { type: 'string' },
  session: { type: 'string' },
  task: { type: 'string' },
  instance: { type: 'string' },
  event: { type: 'string' },
  status: { type: 'string' },
  since: { type: 'string' },
} as const;

type TailValues = {
  readonly [Name in keyof typeof tailOptions]?: (Name extends 'follow' ? boolean : string) | undefined;
};

/** A line of the trail, whatever wrote it. */
export type TrailLine = Readonly<Record<string, unknown>>;

export interface TailFlags {
  readonly follow: boolean;
  readonly lines: number;
  readonly matches: (line: TrailLine) => boolean;
}

const DEFAULT_LINES = 20;
const MAX_LINES = 1_000_000;
const units: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** @throws UsageError */
export function parseTailFlags(values: TailValues, now: Date): TailFlags {
  const exact = (field: string, wanted: string | undefined) => (line: TrailLine) =>
    wanted === undefined || line[field] === wanted;
  const like = (field: string, pattern: string | undefined) => {
    const matches = pattern === undefined ? null : compilePattern(pattern);
    return (line: TrailLine) => matches === null || (typeof line[field] === 'string' && matches(line[field]));
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
    (line: TrailLine) => since === null || String(line.ts) >= since,
  ];
  return {
    follow: values.follow ?? false,
    lines: parseLines(values.lines),
    matches: (line) => tests.every((test) => test(line)),
  };
}

/** A line that stands for many is one of those that it stands for. */
const either =
  (...tests: readonly ((line: TrailLine) => boolean)[]) =>
  (line: TrailLine) =>
    tests.some((test) => test(line));

function parseLines(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LINES;
  if (text === 'all') return MAX_LINES;
  const lines = Number(text);
  if (/^\d+$/.test(text) && lines <= MAX_LINES) return lines;
  throw new UsageError(`-n: expected a whole number from 0 to ${MAX_LINES}, or "all", found ${JSON.stringify(text)}`);
}

/** As the trail writes it, so that times compare as texts. */
function parseSince(text: string, now: Date): string {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const ms = count === undefined ? Date.parse(text) : now.getTime() - Number(count) * (units[unit ?? ''] ?? 0);
  if (Number.isNaN(ms) || (count === undefined && !/^\d{4}-/.test(text))) {
    throw new UsageError(
      `--since: expected a time such as 2026-01-31T08:00:00Z, or 90s, 15m, 2h, 3d; found ${JSON.stringify(text)}`,
    );
  }
  return new Date(ms).toISOString();
}
