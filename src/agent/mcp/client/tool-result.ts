import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import { cutText, unitsThatFit } from '../../../base/text.ts';
import type { CallKind } from '../../../runtime/port/policy-layers.ts';
import { type Redact, redactStrings } from '../../../server/secrets/redactor.ts';
import { type McpError, McpOutputError, McpSchemaError, McpToolError, type ToolError, toToolError } from './errors.ts';

/*
 * Output of a call for the model or the guest, as compact JSON with sorted keys:
 *
 *   {"content":[…],"structuredContent":{…}}     success; structuredContent only if the tool returned one
 *   {"error":{"code","message","retryable"}}    failure before there was a result
 *   {"content":[…],"error":{…}}                 a result with an error: the tool reported one (mcp_tool_error), its
 *                                               structured part violates its schema (mcp_tool_error, that part is left
 *                                               out), or it was too large (mcp_output_too_large, see below)
 *
 * A resource has `contents` instead of `content`, a prompt `messages` and maybe a `description`.
 *
 * The entries keep the server's form. A program, but no model, also gets `_meta` of the result, with an error as well. The JSON is never larger than the bound: a text that
 * does not fit is cut between two characters and ends with TRUNCATION_MARK, what follows it is left out; an image or
 * another entry that does not fit is replaced by a text that says so; structuredContent and _meta are left out.
 */
export interface ToolOutput {
  readonly json: string;
  /** Null: the call succeeded. */
  readonly error: ToolError | null;
}

export const TRUNCATION_MARK = '… [truncated]';

const MAX_MESSAGE_CHARS = 500;
const MAX_KIND_CHARS = 60;

export interface ResultContext {
  /** @default tool */
  readonly kind?: CallKind;
  readonly serverId: string;
  readonly toolName: string;
  readonly maxOutputBytes: number;
  /** Schema violation of structuredContent; null: none, or not validated. */
  readonly outputProblem: string | null;
  /** Whether the output keeps `_meta`. */
  readonly keepsMeta: boolean;
  readonly redact: Redact;
  /** For content: a tool can read its server's environment, whose secrets must not reach the model. */
  readonly redactContent: Redact;
}

type EntriesField = 'content' | 'contents' | 'messages';

/** Result form of each kind: the field with the entries, and the check of an entry. */
const forms: Readonly<Record<CallKind, { readonly field: EntriesField; isEntry(value: JsonValue): boolean }>> = {
  tool: { field: 'content', isEntry: (value) => isJsonObject(value) && typeof value.type === 'string' },
  resource: { field: 'contents', isEntry: (value) => isJsonObject(value) && typeof value.uri === 'string' },
  prompt: {
    field: 'messages',
    isEntry: (value) => isJsonObject(value) && typeof value.role === 'string' && isJsonObject(value.content),
  },
};

export function convertResult(result: JsonObject, context: ResultContext): ToolOutput {
  const { serverId, toolName, kind = 'tool' } = context;
  const { field, isEntry } = forms[kind];
  try {
    const unfinished = unfinishedKind(result);
    if (unfinished !== null) throw new McpToolError(serverId, toolName, `${kind} "${toolName}" ${unfinished}`);
    const { [field]: entries = [], structuredContent, description } = result;
    if (!Array.isArray(entries) || !entries.every(isEntry)) {
      throw new McpToolError(serverId, toolName, `${kind} "${toolName}" returned invalid ${field}`);
    }
    const failure = kind === 'tool' ? failureOf(result, entries as Block[], context) : null;
    const shown = redactStrings(entries, context.redactContent) as JsonObject[];
    const structured = failure === null ? redactStrings(structuredContent, context.redactContent) : undefined;
    const about = kind === 'prompt' && typeof description === 'string' ? context.redactContent(description) : undefined;
    const meta = context.keepsMeta ? redactStrings(result._meta, context.redactContent) : undefined;
    const json = encode(field, shown, failure, { structured, about, meta });
    const bytes = Buffer.byteLength(json);
    if (bytes <= context.maxOutputBytes) return { json, error: failure };
    const message = `the result of ${kind} "${toolName}" has ${bytes} bytes, the limit is ${context.maxOutputBytes}; it was truncated`;
    return truncated(shown, toToolError(new McpOutputError(serverId, message)), context.maxOutputBytes, { field });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new McpToolError(serverId, toolName, `the result of ${kind} "${toolName}" is nested too deeply`);
  }
}

/** Output of a call without a result. */
export function convertError(error: unknown, maxOutputBytes: number): ToolOutput {
  const toolError = toToolError(error);
  if (error instanceof McpOutputError && error.head !== '') {
    return truncated([{ type: 'text', text: error.head }], toolError, maxOutputBytes, { unfinished: true });
  }
  return { json: encode('content', null, toolError), error: toolError };
}

/** Why a response is no final result; null: it is one. */
function unfinishedKind(result: JsonObject): string | null {
  const { resultType, task, inputRequests, content } = result;
  if (resultType === 'task' || (content === undefined && isJsonObject(task))) {
    return 'started an MCP task instead of returning a result; MCP tasks are not supported, and whether it is still running is unknown';
  }
  if (resultType === 'input_required' || (content === undefined && isJsonObject(inputRequests))) {
    return 'requested more input instead of returning a result; this is not supported, and the call did not finish';
  }
  if (resultType === undefined || resultType === 'complete') return null;
  return `returned an unknown type of result (${cutText(JSON.stringify(resultType), MAX_KIND_CHARS)})`;
}

interface Block extends JsonObject {
  type: string;
}

function failureOf(result: JsonObject, content: readonly Block[], context: ResultContext): ToolError | null {
  const { serverId, toolName, redact } = context;
  let failure: McpError | null = null;
  if (result.isError === true) {
    const said = firstText(content, redact);
    failure = new McpToolError(serverId, toolName, said === '' ? `tool "${toolName}" reported an error` : said);
  } else if (context.outputProblem !== null) {
    failure = new McpSchemaError(serverId, toolName, redact(context.outputProblem));
  }
  return failure === null ? null : toToolError(failure);
}

// Redacts before cutting, because half a secret would not be found.
function firstText(content: readonly Block[], redact: Redact): string {
  for (const block of content) {
    if (block.type === 'text' && typeof block.text === 'string') return cutText(redact(block.text), MAX_MESSAGE_CHARS);
  }
  return '';
}

interface ResultExtras {
  readonly structured?: JsonValue | undefined;
  /** The description of a prompt. */
  readonly about?: string | undefined;
  readonly meta?: JsonValue | undefined;
}

function encode(
  field: EntriesField,
  entries: JsonValue[] | null,
  error: ToolError | null,
  { structured, about, meta }: ResultExtras = {},
): string {
  const result: JsonObject = {};
  if (meta !== undefined) result._meta = meta;
  if (entries !== null) result[field] = entries;
  if (about !== undefined) result.description = about;
  if (error !== null) result.error = { ...error };
  if (structured !== undefined) result.structuredContent = structured;
  return canonicalJson(result);
}

interface CutOptions {
  readonly field?: EntriesField;
  /** The last text is incomplete even if it fits. */
  readonly unfinished?: boolean;
}

function truncated(
  entries: readonly JsonObject[],
  error: ToolError,
  maxBytes: number,
  { field = 'content', unfinished = false }: CutOptions,
): ToolOutput {
  const kept: JsonValue[] = [];
  let room = maxBytes - Buffer.byteLength(encode(field, [], error));
  for (const entry of entries) {
    const bytes = Buffer.byteLength(canonicalJson(entry));
    if (bytes < room && !unfinished) {
      kept.push(entry);
      room -= bytes + 1;
      continue;
    }
    const cut = cutEntry(entry, room - 1);
    if (cut !== null) {
      kept.push(cut);
      break;
    }
    const note = noteOf(entry, bytes);
    const noteBytes = Buffer.byteLength(canonicalJson(note)) + 1;
    if (noteBytes > room) break;
    kept.push(note);
    room -= noteBytes;
  }
  const json = encode(field, kept, error);
  // A limit smaller than the error itself cannot be met; then the error alone is returned.
  return { json: Buffer.byteLength(json) <= maxBytes ? json : encode(field, null, error), error };
}

/** Placeholder of the same form for an entry that is left out. */
function noteOf({ type, uri, role, content }: JsonObject, bytes: number): JsonObject {
  if (typeof uri === 'string' && type === undefined) return { uri, text: `[contents of ${bytes} bytes omitted]` };
  if (isJsonObject(content)) return { role: role as string, content: noteOf(content, bytes) };
  return { type: 'text', text: `[${type} of ${bytes} bytes omitted]` };
}

/** The entry with its text cut to at most `maxBytes` in total; null: it has no text, or there is no room. */
function cutEntry(entry: JsonObject, maxBytes: number): JsonObject | null {
  const inner = isJsonObject(entry.content)
    ? 'content'
    : entry.type === 'resource' && isJsonObject(entry.resource)
      ? 'resource'
      : null;
  if (inner !== null) {
    const frame = Buffer.byteLength(canonicalJson({ ...entry, [inner]: {} })) - EMPTY_OBJECT_BYTES;
    const cut = cutEntry(entry[inner] as JsonObject, maxBytes - frame);
    return cut === null ? null : { ...entry, [inner]: cut };
  }
  if (typeof entry.text !== 'string') return null;
  const { text } = entry;
  const withText = (value: string): JsonObject => ({ ...entry, text: value });
  const room = maxBytes - Buffer.byteLength(canonicalJson(withText(TRUNCATION_MARK)));
  if (room <= 0) return null;
  return withText(text.slice(0, unitsThatFit(text, room)) + TRUNCATION_MARK);
}

const EMPTY_OBJECT_BYTES = 2;
