import { statSync } from 'node:fs';
import { compilePattern } from '../../agent/policy/pattern.ts';
import { rotatedFiles } from '../../server/audit/file.ts';
import { AuditFollower, parseLine, readLines } from '../../server/audit/reader.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';
import { type Colour, durationOf, type Paint, paintFor, printable } from '../formatting.ts';
import { type TailValues, tailFlags } from './flags.ts';

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

/** A line of an audit log, of any event. */
export type AuditLine = Readonly<Record<string, unknown>>;

const EVENT_COLUMN = 19;

const statusColours: Readonly<Record<string, Colour>> = {
  ok: 'green',
  allowed: 'green',
  exit: 'green',
  denied: 'red',
  failed: 'yellow',
};

/** One readable line. Names come from guests, models and servers: control characters are removed. */
export function describeLine(line: AuditLine, colours: boolean): string {
  const paint = paintFor(colours);
  const event = text(line.event);
  const about = event.startsWith('chain.') ? describeChain(line) : describeEvent(line, paint);
  const parts = [
    paint('dim', text(line.ts)),
    paint('cyan', event.padEnd(EVENT_COLUMN)),
    ...about,
    paint(
      'dim',
      [line.session_id, line.request_id]
        .filter((id) => typeof id === 'string')
        .map(text)
        .join(' '),
    ),
  ];
  return parts.filter((part) => part !== '').join('  ');
}

function describeEvent(line: AuditLine, paint: Paint): string[] {
  const name = [line.server_id, line.kind, line.tool_name].filter((part) => typeof part === 'string').map(text);
  const status = text(line.status);
  const { args, reason, detail } = { args: line.args, reason: text(line.reason), detail: detailOf(line) };
  return [
    name.join(' '),
    paint(statusColours[status] ?? 'yellow', status),
    paint(status === 'denied' ? 'red' : 'yellow', reason),
    args === undefined || args === null ? '' : printable(typeof args === 'string' ? args : JSON.stringify(args)),
    detail,
    count(line.duration_ms, 'ms'),
    count(line.output_bytes, 'bytes'),
    typeof line.revision === 'number' ? `revision ${line.revision}` : '',
  ];
}

function detailOf(line: AuditLine): string {
  switch (line.event) {
    case 'guest.started':
      return [
        text(line.module),
        digest(line.module_sha256),
        line.task === null ? '' : `task ${text(line.task)}`,
        text(line.instance),
      ]
        .filter((part) => part !== '')
        .join(', ');
    case 'model_call.finished':
      return [
        [text(line.backend), text(line.model)].filter((part) => part !== '').join(' '),
        count(line.input_tokens, 'tokens in'),
        count(line.output_tokens, 'tokens out'),
      ]
        .filter((part) => part !== '')
        .join(', ');
    case 'sms.started':
      return `${text(line.http)} and ${text(line.grpc)}${line.auth === false ? ', no tokens required' : ''}`;
    case 'sms.profile_changed':
    case 'sms.token_changed':
    case 'sms.task_changed':
    case 'sms.stop_changed':
      return `${text(line.profile ?? line.token ?? line.task_id ?? line.stop_id)} ${text(line.action)}${list(line.fields) && ` of ${list(line.fields)}`}${caller(line)}`;
    case 'sms.record_changed':
      return `${text(line.action)}${list(line.fields) && ` of ${list(line.fields)}`}${caller(line)}`;
    case 'sms.write_started':
      return `${list(line.servers)}${moreThan(Number(line.changes), line.servers)}${caller(line)}`;
    case 'sms.profile_write_started':
      return `${list(line.profiles)}${moreThan(Number(line.changes), line.profiles)}${caller(line)}`;
    case 'sms.token_write_started':
      return `${list(line.tokens)}${moreThan(Number(line.changes), line.tokens)}${caller(line)}`;
    case 'sms.task_write_started':
      return `${list(line.tasks)}${moreThan(Number(line.changes), line.tasks)}${caller(line)}`;
    case 'sms.stop_write_started':
      return `${list(line.stops)}${moreThan(Number(line.changes), line.stops)}${caller(line)}`;
    case 'sms.approval_requested':
      return `${text(line.approval_id)} ${text(line.run)}${caller(line)}`;
    case 'sms.approval_decided':
      return `${text(line.approval_id)} ${text(line.decision)}${caller(line)}`;
    case 'sms.approval_write_started':
    case 'sms.approval_ended':
    case 'sms.approval_read':
      return `${text(line.approval_id)}${caller(line)}`;
    case 'sms.journal_read':
      return `${text(line.run_namespace)}/${text(line.run)}${caller(line)}`;
    case 'sms.reloaded':
      return `${text(line.changes)} changes, ${text(line.problems)} problems${caller(line)}`;
    case 'sms.login':
      return `until ${text(line.expires_at)}${caller(line)}`;
    case 'sms.served':
    case 'sms.refused':
      return `${text(line.code)}${caller(line)}`;
    case 'events.folded':
      return [
        `${text(line.count)} more ${text(line.of)}`,
        text(line.method),
        text(line.peer),
        `until ${text(line.last_ts)}`,
      ]
        .filter((part) => part !== '')
        .join(' ');
    case 'guest.ended':
      return typeof line.exit_code === 'number' ? `code ${line.exit_code}` : '';
    case 'session.created':
      return `servers: ${list(line.servers) || 'none'}${without(line)}`;
    case 'mcp.injected':
      return `${count(line.tools, 'tools')}${without(line)}`;
    case 'tool_call.progress':
      return `at ${text(line.progress)}${line.total === null ? '' : ` of ${text(line.total)}`}`;
    case 'approval.decided':
      return `${text(line.decision)} by ${text(line.decided_by)}`;
    case 'elicitation.asked':
      return `${text(line.mode)}${text(line.host) && ` at ${text(line.host)}`}`;
    case 'elicitation.answered':
      return `${text(line.mode)}: ${text(line.action)} by ${text(line.decided_by)}`;
    case 'registry.applied':
    case 'profiles.applied':
      return [change('changed', line.upserts, line.upserted), change('removed', line.deletes, line.deleted)]
        .filter((part) => part !== '')
        .join(', ');
    case 'registry.state':
      return text(line.state);
    case 'budget.hit':
      return text(line.budget);
    default:
      return '';
  }
}

function describeChain(line: AuditLine): string[] {
  switch (line.event) {
    case 'chain.started':
      return [`chain ${text(line.chain)}, process ${text(line.pid)}${who(line)}`];
    case 'chain.lost':
      return [`${text(line.lines)} lines could not be written (${text(line.reason)})`];
    case 'chain.repaired':
      return [`an incomplete line of ${text(line.torn_bytes)} bytes was left by a process that crashed`];
    default:
      return [`chain ${text(line.chain)}`];
  }
}

/** Caller of a registry. */
function caller({ actor, role, peer, via, method }: AuditLine): string {
  if (via === 'process') return ' by the registry';
  const who = text(actor) || text(role) || 'an unknown caller';
  return ` by ${who}${text(peer) && ` from ${text(peer)}`}, ${text(via)} ${text(method)}`;
}

/** Enough of a digest to tell two apart. */
const digest = (value: unknown) => (typeof value === 'string' ? `sha256 ${text(value.slice(0, 12))}…` : '');

const who = ({ host, user, uid }: AuditLine) =>
  host === undefined ? '' : ` of ${text(user) || `uid ${text(uid)}`} on ${text(host)}`;

const change = (what: string, number: unknown, ids: unknown) =>
  typeof number === 'number' && number > 0 ? `${what}: ${list(ids)}${moreThan(number, ids)}` : '';

const moreThan = (number: number, ids: unknown) =>
  Array.isArray(ids) && number > ids.length ? ` and ${number - ids.length} more` : '';

function without({ exclusions }: AuditLine): string {
  if (!Array.isArray(exclusions) || exclusions.length === 0) return '';
  const names = exclusions.map(
    (item: AuditLine) => `${text(item.tool_name) || text(item.server_id)} (${text(item.reason)})`,
  );
  return `, excluded: ${names.join(', ')}`;
}

const list = (value: unknown) => (Array.isArray(value) ? value.map(text).join(', ') : '');
const count = (value: unknown, what: string) => (typeof value === 'number' ? `${value} ${what}` : '');
const text = (value: unknown) => (value === null || value === undefined ? '' : printable(String(value)));
