import { useEffect, useRef, useState } from 'preact/hooks';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import type { FieldProblemJson, RecordCheckJson } from '../../registry/console-api.ts';
import { type ApiError, post, request } from '../api.ts';
import { DiffView } from '../diff-view.tsx';
import { linkTo, useResource, useSettled } from '../hooks.ts';
import { Dialog, Failure, Loading, PageHead } from '../parts.tsx';
import { asJson, UntrustedText } from '../text.tsx';
import type { ServerJson } from './server.tsx';

const SERVERS = '/admin/api/mcp/servers';
/** Delay after the last key press. */
const CHECK_AFTER_MS = 250;

const freshDraft: JsonObject = { server_id: '', transport: 'stdio', stdio: { command: '' }, allowed_tools: ['*'] };

export function NewServer() {
  return <Editor id={null} base={freshDraft} start={null} revision={null} theirs={null} />;
}

export function EditServer({ id }: { readonly id: string }) {
  const { value, error, again } = useResource<ServerJson>(`${SERVERS}/${encodeURIComponent(id)}`, ['servers']);
  // The editor keeps the record that it read first; a later version is a change by another user.
  const first = useRef<ServerJson | null>(null);
  /** Draft to continue with instead of the stored record. */
  const kept = useRef<JsonObject | null>(null);
  const [round, setRound] = useState(0);
  if (value !== null) first.current ??= value;
  const start = first.current;
  if (start === null) {
    return (
      <>
        <PageHead title={`Edit ${id}`} />
        {error === null ? <Loading /> : <Failure error={error} again={again} />}
      </>
    );
  }
  const restart = (mine: JsonObject | null) => {
    first.current = value;
    kept.current = mine;
    setRound(round + 1);
  };
  return (
    <Editor
      key={round}
      id={id}
      base={contentOf(start)}
      start={kept.current}
      revision={start.mod_revision}
      theirs={
        value !== null && value.mod_revision !== start.mod_revision
          ? { content: contentOf(value), revision: value.mod_revision, take: restart }
          : null
      }
    />
  );
}

interface EditorProps {
  /** Null: a new server. */
  readonly id: string | null;
  readonly base: JsonObject;
  /** Initial draft; null: the base. */
  readonly start: JsonObject | null;
  readonly revision: number | null;
  /** The record that another user stored in the meantime. */
  readonly theirs: {
    readonly content: JsonObject;
    readonly revision: number;
    readonly take: (mine: JsonObject | null) => void;
  } | null;
}

function Editor({ id, base, start, revision, theirs }: EditorProps) {
  const [draft, setDraft] = useState<JsonObject>(start ?? base);
  const [json, setJson] = useState<string | null>(null);
  const [check, setCheck] = useState<RecordCheckJson | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [reviewing, setReviewing] = useState(false);
  const serverId = id ?? (typeof draft.server_id === 'string' ? draft.server_id : '');
  const settled = useSettled(draft, CHECK_AFTER_MS);
  useEffect(() => {
    const gone = new AbortController();
    post<RecordCheckJson>(`${SERVERS}/check`, { server_id: id ?? '', record: settled }, gone.signal).then(
      (answer) => {
        setCheck(answer);
        setError(null);
      },
      (failed: unknown) => {
        if (!gone.signal.aborted) setError(failed as ApiError);
      },
    );
    return () => gone.abort();
  }, [settled, id]);
  const isWrongJson = json !== null && !isJsonObject(parseJson(json));
  const isChecked = settled === draft && check !== null;
  const mayReview = isChecked && check.ok && !isWrongJson;
  const typeJson = (text: string) => {
    setJson(text);
    const value = parseJson(text);
    if (isJsonObject(value)) setDraft(value);
  };
  return (
    <>
      <PageHead title={id === null ? 'Add a server' : `Edit ${id}`}>
        <button
          type="button"
          onClick={() => setJson(json === null ? asJson(draft) : null)}
          aria-pressed={json !== null}
        >
          {json === null ? 'All fields as JSON' : 'Back to the form'}
        </button>
        <button type="button" class="primary" disabled={!mayReview} onClick={() => setReviewing(true)}>
          Review changes
        </button>
      </PageHead>
      {theirs === null ? null : (
        <div class="notice warn" role="alert">
          <strong>Another user changed this server (revision {theirs.revision})</strong>
          <DiffView label="Change by the other user" before={asJson(base)} after={asJson(theirs.content)} />
          <div class="actions">
            <button type="button" onClick={() => theirs.take(onTop(base, draft, theirs.content))}>
              Apply my changes to the new revision
            </button>
            <button type="button" onClick={() => theirs.take(null)}>
              Discard my changes
            </button>
          </div>
          <p class="muted">Your changes cannot be stored until you choose one of these.</p>
        </div>
      )}
      {error === null ? null : <Failure error={error} />}
      {json === null ? (
        <RecordForm draft={draft} change={setDraft} problems={check?.errors ?? []} isNew={id === null} />
      ) : (
        <div class={isWrongJson ? 'field wrong' : 'field'}>
          <label for="record-json">Server as JSON</label>
          <textarea
            id="record-json"
            class="code"
            rows={28}
            spellcheck={false}
            value={json}
            onInput={({ currentTarget }) => typeJson(currentTarget.value)}
          />
          {isWrongJson ? <span class="problem">This is not a JSON object.</span> : null}
        </div>
      )}
      <Verdict check={check} />
      {reviewing && check !== null ? (
        <Review
          id={id}
          serverId={serverId}
          draft={draft}
          check={check}
          revision={revision}
          close={() => setReviewing(false)}
        />
      ) : null}
    </>
  );
}

function Verdict({ check }: { readonly check: RecordCheckJson | null }) {
  if (check === null) return null;
  if (!check.ok) {
    return (
      <div class="notice warn" role="status">
        <strong>The server is not valid yet</strong>
        <ul>
          {check.errors.map(({ field, detail }) => (
            <li key={field}>
              <code>
                <UntrustedText text={field || 'server'} />
              </code>{' '}
              <UntrustedText text={detail} />
            </li>
          ))}
        </ul>
      </div>
    );
  }
  return (
    <div class={check.warnings.length > 0 ? 'notice warn' : 'notice good'} role="status">
      <strong>The server is valid</strong>
      {check.warnings.map(({ field, detail }) => (
        <p key={field}>
          <UntrustedText text={`${field}: ${detail}`} />
        </p>
      ))}
    </div>
  );
}

interface ReviewProps {
  readonly id: string | null;
  readonly serverId: string;
  readonly draft: JsonObject;
  readonly check: RecordCheckJson;
  readonly revision: number | null;
  readonly close: () => void;
}

function Review({ id, serverId, draft, check, revision, close }: ReviewProps) {
  const [error, setError] = useState<ApiError | null>(null);
  const [saving, setSaving] = useState(false);
  const save = async () => {
    setSaving(true);
    try {
      if (id === null) await request('POST', SERVERS, { json: draft });
      else {
        await request('PUT', `${SERVERS}/${encodeURIComponent(id)}`, { json: draft, ifMatch: `"${revision}"` });
      }
      location.hash = linkTo('servers', serverId);
    } catch (failed) {
      setError(failed as ApiError);
      setSaving(false);
    }
  };
  return (
    <Dialog title={id === null ? `Add ${serverId}` : `Change ${serverId}`} onClose={close}>
      <DiffView
        label="Changes"
        before={check.before === null ? '' : asJson(check.before)}
        after={check.after === null ? '' : asJson(check.after)}
      />
      {error === null ? null : error.status === 412 ? (
        <div class="notice bad" role="alert">
          <strong>Another user changed this server first</strong>
          <p>
            <UntrustedText text={error.message} />. Nothing was stored. Close this dialog to see the other change.
          </p>
        </div>
      ) : (
        <Failure error={error} />
      )}
      <div class="actions">
        <button type="button" class="primary" disabled={saving} onClick={save}>
          {saving ? 'Saving…' : 'Save'}
        </button>
        <button type="button" onClick={close}>
          Continue editing
        </button>
      </div>
    </Dialog>
  );
}

/** The stored record of another user with the fields changed here. */
function onTop(base: JsonObject, mine: JsonObject, theirs: JsonObject): JsonObject {
  const isMine = (name: string) => JSON.stringify(mine[name]) !== JSON.stringify(base[name]);
  const kept = Object.entries(theirs).filter(([name]) => !isMine(name) || Object.hasOwn(mine, name));
  return { ...Object.fromEntries(kept), ...Object.fromEntries(Object.entries(mine).filter(([name]) => isMine(name))) };
}

/** Removes fields that the registry adds. */
function contentOf(server: ServerJson): JsonObject {
  const { nodes: _nodes, origin: _origin, updated_at_ms: _at, mod_revision: _revision, ...content } = server;
  return content as unknown as JsonObject;
}

const REFERENCE = '$' + '{ENV:MCP_NAME} is resolved on the node';

export interface FormProps {
  readonly draft: JsonObject;
  readonly change: (draft: JsonObject) => void;
  readonly problems: readonly FieldProblemJson[];
  readonly isNew: boolean;
}

/** Form for the common fields. All others are edited as JSON. */
export function RecordForm({ draft, change, problems, isNew }: FormProps) {
  const field = (path: readonly string[]) => ({
    value: valueAt(draft, path),
    set: (value: JsonValue | undefined) => change(withValue(draft, path, value)),
    problems: problems.filter(
      ({ field: name }) =>
        name === path.join('.') || name.startsWith(`${path.join('.')}.`) || name.startsWith(`${path.join('.')}[`),
    ),
    id: path.join('-'),
  });
  const isStdio = draft.transport !== 'streamable_http' && draft.transport !== 'http_sse_legacy';
  const setTransport = (transport: string) => {
    const { stdio: _stdio, http: _http, ...rest } = draft;
    change({ ...rest, transport, ...(transport === 'stdio' ? { stdio: { command: '' } } : { http: { url: '' } }) });
  };
  return (
    <div class="form">
      <TextField name="Id" hint="letters, digits, . _ -" {...field(['server_id'])} disabled={!isNew} />
      <TextField name="Name" hint="display name" {...field(['display_name'])} />
      <Choice
        name="Transport"
        id="transport"
        value={String(draft.transport ?? 'stdio')}
        options={['stdio', 'streamable_http', 'http_sse_legacy']}
        set={setTransport}
      />
      {isStdio ? (
        <>
          <TextField name="Command" hint="resolved on the node, not on the registry" {...field(['stdio', 'command'])} />
          <LinesField name="Arguments" hint="one per line" {...field(['stdio', 'args'])} />
          <MapField name="Environment" hint={`NAME=value; ${REFERENCE}`} separator="=" {...field(['stdio', 'env'])} />
        </>
      ) : (
        <>
          <TextField name="URL" hint="https://…" {...field(['http', 'url'])} />
          <MapField name="Headers" hint={`Name: value; ${REFERENCE}`} separator=":" {...field(['http', 'headers'])} />
          <TextField name="Token reference" hint="env:MCP_NAME or file:PATH" {...field(['http', 'auth_ref'])} />
        </>
      )}
      <LinesField
        name="Allowed tools"
        hint="patterns, one per line; if empty, every tool is denied"
        {...field(['allowed_tools'])}
      />
      <LinesField name="Tags" hint="one per line" {...field(['tags'])} />
      <Choice
        name="Approval"
        id="approval"
        value={String(valueAt(draft, ['approval_policy', 'default']) ?? '')}
        options={['', 'never', 'policy', 'always']}
        set={(mode) => change(withValue(draft, ['approval_policy', 'default'], mode === '' ? undefined : mode))}
      />
    </div>
  );
}

interface FieldProps {
  readonly name: string;
  readonly hint: string;
  readonly id: string;
  readonly value: JsonValue | undefined;
  readonly set: (value: JsonValue | undefined) => void;
  readonly problems: readonly FieldProblemJson[];
  readonly disabled?: boolean;
}

function TextField({ name, hint, id, value, set, problems, disabled = false }: FieldProps) {
  return (
    <Labelled name={name} hint={hint} id={id} problems={problems}>
      <input
        id={id}
        type="text"
        spellcheck={false}
        autocomplete="off"
        disabled={disabled}
        aria-describedby={`${id}-hint`}
        aria-invalid={problems.length > 0}
        value={typeof value === 'string' ? value : ''}
        onInput={({ currentTarget }) => set(currentTarget.value === '' ? undefined : currentTarget.value)}
      />
    </Labelled>
  );
}

/** Keeps the typed text, because an incomplete line is not a value. */
function AreaField(props: FieldProps & { text: string; parse: (text: string) => JsonValue | undefined }) {
  const { name, hint, id, problems } = props;
  const [text, setText] = useState(props.text);
  return (
    <Labelled name={name} hint={hint} id={id} problems={problems}>
      <textarea
        id={id}
        rows={Math.min(8, Math.max(2, text.split('\n').length))}
        spellcheck={false}
        aria-describedby={`${id}-hint`}
        aria-invalid={problems.length > 0}
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value);
          props.set(props.parse(currentTarget.value));
        }}
      />
    </Labelled>
  );
}

function LinesField(props: FieldProps) {
  const lines = Array.isArray(props.value) ? props.value.map(String).join('\n') : '';
  return <AreaField {...props} text={lines} parse={nonEmptyLines} />;
}

function MapField({ separator, ...props }: FieldProps & { readonly separator: '=' | ':' }) {
  const entries = isJsonObject(props.value) ? Object.entries(props.value) : [];
  const space = separator === ':' ? ' ' : '';
  const text = entries.map(([name, value]) => `${name}${separator}${space}${String(value)}`).join('\n');
  const parse = (typed: string): JsonValue =>
    Object.fromEntries(
      nonEmptyLines(typed).map((line) => {
        const at = line.indexOf(separator);
        return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).replace(/^ /, '')];
      }),
    );
  return <AreaField {...props} text={text} parse={parse} />;
}

function Choice(props: {
  name: string;
  id: string;
  value: string;
  options: readonly string[];
  set: (value: string) => void;
}) {
  return (
    <div class="field">
      <label for={props.id}>{props.name}</label>
      <select id={props.id} value={props.value} onChange={({ currentTarget }) => props.set(currentTarget.value)}>
        {props.options.map((option) => (
          <option key={option} value={option}>
            {option === '' ? 'default' : option}
          </option>
        ))}
      </select>
    </div>
  );
}

function Labelled(
  props: Pick<FieldProps, 'name' | 'hint' | 'id' | 'problems'> & { readonly children: preact.ComponentChildren },
) {
  return (
    <div class={props.problems.length > 0 ? 'field wrong' : 'field'}>
      <label for={props.id}>{props.name}</label>
      {props.children}
      <span class="hint" id={`${props.id}-hint`}>
        {props.problems.length === 0
          ? props.hint
          : props.problems.map(({ field, detail }) => (
              <span key={field} class="problem">
                <UntrustedText text={`${field}: ${detail}`} />
              </span>
            ))}
      </span>
    </div>
  );
}

const nonEmptyLines = (text: string) => text.split('\n').filter((line) => line.trim() !== '');

function valueAt(draft: JsonObject, [first, ...rest]: readonly string[]): JsonValue | undefined {
  const value = first === undefined || !Object.hasOwn(draft, first) ? undefined : draft[first];
  if (rest.length === 0) return value;
  return isJsonObject(value) ? valueAt(value, rest) : undefined;
}

/** A copy with the value set; undefined removes the field. */
export function withValue(
  draft: JsonObject,
  [first, ...rest]: readonly string[],
  value: JsonValue | undefined,
): JsonObject {
  if (first === undefined) return draft;
  const inner = draft[first];
  const next = rest.length === 0 ? value : withValue(isJsonObject(inner) ? inner : {}, rest, value);
  const { [first]: _, ...others } = draft;
  // Replaced in place, so that the JSON keeps its order.
  if (Object.hasOwn(draft, first) && next !== undefined) return { ...draft, [first]: next };
  return next === undefined ? others : { ...others, [first]: next };
}
