import { useState } from 'preact/hooks';
import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import type { FieldProblemJson } from '../registry/console-api.ts';
import { Told } from './text.tsx';

const REFERENCE = '$' + '{ENV:MCP_NAME} is resolved on the node';

export interface FormProps {
  readonly draft: JsonObject;
  readonly change: (draft: JsonObject) => void;
  readonly problems: readonly FieldProblemJson[];
  readonly isNew: boolean;
}

/** The fields that most records have. The others are in the JSON beside it. */
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

/** Keeps what is typed: half a line is no value yet. */
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
                <Told text={`${field}: ${detail}`} />
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

/** A copy with that value; undefined takes the field away. */
export function withValue(
  draft: JsonObject,
  [first, ...rest]: readonly string[],
  value: JsonValue | undefined,
): JsonObject {
  if (first === undefined) return draft;
  const inner = draft[first];
  const next = rest.length === 0 ? value : withValue(isJsonObject(inner) ? inner : {}, rest, value);
  const { [first]: _, ...others } = draft;
  // In its place, so that the JSON keeps its order.
  if (Object.hasOwn(draft, first) && next !== undefined) return { ...draft, [first]: next };
  return next === undefined ? others : { ...others, [first]: next };
}
