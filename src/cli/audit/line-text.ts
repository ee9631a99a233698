import { type Colour, type Paint, paintFor } from '../paint.ts';
import { printable } from '../table.ts';

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
