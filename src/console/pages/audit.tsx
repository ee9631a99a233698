import { useEffect, useRef, useState } from 'preact/hooks';
import type { JsonObject, JsonValue } from '../../base/json.ts';
import type { TrailLineJson, TrailPageJson } from '../../registry/console-api.ts';
import { type ApiError, get } from '../api.ts';
import { useSettled } from '../hooks.ts';
import { Empty, Failure, PageHead } from '../parts.tsx';
import { asJson, bytes, counted, UntrustedBlock, UntrustedText } from '../text.tsx';

const FOLLOW_EVERY_MS = 1_500;
/** Maximum number of events on the page. */
const MAX_LINES = 2_000;

const events = [
  '',
  'sms.record_changed',
  'sms.profile_changed',
  'sms.task_changed',
  'sms.approval',
  'sms.refused',
  'sms.served',
  'sms.reloaded',
  'sms.started',
];

/** Audit log of the registry. */
export function Trail() {
  const [text, setText] = useState('');
  const [event, setEvent] = useState('');
  const [follows, setFollows] = useState(true);
  const [lines, setLines] = useState<readonly TrailLineJson[]>([]);
  const [older, setOlder] = useState<string | null>(null);
  const [isRead, setRead] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const newest = useRef<string | null>(null);
  const wanted = useSettled(`${text}\n${event}`, 250);
  const query = (more: Readonly<Record<string, string>>) => {
    const [q = '', name = ''] = wanted.split('\n');
    return `/admin/api/audit?${new URLSearchParams({ q, event: name, ...more })}`;
  };
  useEffect(() => {
    const gone = new AbortController();
    newest.current = null;
    get<TrailPageJson>(query({ limit: '100' }), gone.signal).then(
      (page) => {
        setLines(page.lines);
        setOlder(page.older);
        setRead(true);
        setError(null);
        newest.current = page.newest;
      },
      (failed: unknown) => {
        if (!gone.signal.aborted) setError(failed as ApiError);
      },
    );
    return () => gone.abort();
  }, [wanted]);
  useEffect(() => {
    if (!follows) return;
    const gone = new AbortController();
    const timer = setInterval(async () => {
      const after = newest.current;
      if (after === null || document.hidden) return;
      try {
        const page = await get<TrailPageJson>(query({ after }), gone.signal);
        if (newest.current !== after || gone.signal.aborted) return;
        newest.current = page.newest;
        if (page.lines.length > 0) setLines((before) => [...page.lines, ...before].slice(0, MAX_LINES));
        setError(null);
      } catch (failed) {
        if (!gone.signal.aborted) setError(failed as ApiError);
      }
    }, FOLLOW_EVERY_MS);
    return () => {
      clearInterval(timer);
      gone.abort();
    };
  }, [follows, wanted]);
  const readOlder = async () => {
    if (older === null) return;
    try {
      const page = await get<TrailPageJson>(query({ before: older }));
      setLines((before) => [...before, ...page.lines].slice(-MAX_LINES));
      setOlder(page.older);
    } catch (failed) {
      setError(failed as ApiError);
    }
  };
  return (
    <>
      <PageHead title="Audit log">
        <button type="button" aria-pressed={follows} onClick={() => setFollows(!follows)}>
          {follows ? 'Following' : 'Follow'}
        </button>
      </PageHead>
      <div class="filters">
        <input
          type="search"
          placeholder="Search server, user, address"
          aria-label="Search the audit log"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
        <select
          aria-label="Filter by event"
          value={event}
          onChange={({ currentTarget }) => setEvent(currentTarget.value)}
        >
          {events.map((name) => (
            <option key={name} value={name}>
              {name === '' ? 'all events' : name}
            </option>
          ))}
        </select>
        <span class="muted" role="status">
          {counted(lines.length, 'event')}
        </span>
      </div>
      {error === null ? null : <Failure error={error} />}
      {isRead && lines.length === 0 ? (
        <Empty title="No events">
          <p>
            {text === '' && event === ''
              ? 'The audit log is empty.'
              : 'No event matches. Change the search, or load older events.'}
          </p>
        </Empty>
      ) : (
        <ul class="audit-events">
          {lines.map((line) => (
            <Line key={line.at} line={line} />
          ))}
        </ul>
      )}
      {older === null ? null : (
        <button type="button" onClick={readOlder}>
          Load older events
        </button>
      )}
    </>
  );
}

function Line({ line: { line, bytes: size } }: { readonly line: TrailLineJson }) {
  const [isOpen, setOpen] = useState(false);
  if (line === null)
    return <li class="muted">An event of {bytes(size)} is too large to show here; use spear audit tail.</li>;
  const who =
    textOf(line.actor) || textOf(line.role) || (line.via === 'process' ? 'the registry' : 'unauthenticated caller');
  return (
    <li>
      <button type="button" class="audit-event" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <time>
          <UntrustedText text={textOf(line.ts).replace('T', ' ').slice(0, 19)} />
        </time>
        <span class={`event ${textOf(line.status)}`}>
          <UntrustedText text={textOf(line.event)} chars={60} />
        </span>
        <span class="who">
          <UntrustedText text={who} chars={60} />
        </span>
        <span class="grow clip">
          <UntrustedText text={summaryOf(line)} chars={200} />
        </span>
      </button>
      {isOpen ? <UntrustedBlock label="Event" text={asJson(line)} /> : null}
    </li>
  );
}

const told = [
  'action',
  'server_id',
  'profile',
  'approval_id',
  'tool_name',
  'decision',
  'fields',
  'method',
  'code',
  'reason',
  'peer',
];

function summaryOf(line: JsonObject): string {
  return told.flatMap((name) => textOf(line[name]) || []).join(' · ');
}

function textOf(value: JsonValue | undefined): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.map(textOf).join(', ');
  return typeof value === 'object' ? '' : String(value);
}
