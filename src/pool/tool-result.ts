import { cutText, unitsThatFit } from '../base/cut-text.ts';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { type Redact, redactStrings } from '../secrets/redactor.ts';
import { type McpError, McpOutputError, McpSchemaError, McpToolError, type ToolError, toToolError } from './errors.ts';

/*
 * What a call gives to the model or the guest, as compact JSON with sorted keys:
 *
 *   {"content":[…],"structuredContent":{…}}     it worked; structuredContent only where the tool gave one
 *   {"error":{"code","message","retryable"}}    it failed before there was a result
 *   {"content":[…],"error":{…}}                 there is a result, but: the tool reported an error (mcp_tool_error), its
 *                                               structured part breaks its schema (mcp_tool_error, that part is left
 *                                               out), or it was too large (mcp_output_too_large, see below)
 *
 * The entries of `content` keep the shape the server gave them. The JSON is never larger than the bound: a text that
 * does not fit is cut between two characters and ends with TRUNCATION_MARK, what follows it is left out; an image or
 * another entry that does not fit is replaced by a text that says so; structuredContent is left out.
 */
export interface ToolOutput {
  readonly json: string;
  /** Null where the call succeeded. */
  readonly error: ToolError | null;
}

export const TRUNCATION_MARK = '… [truncated]';

const MAX_MESSAGE_CHARS = 500;

export interface ResultContext {
  readonly serverId: string;
  readonly toolName: string;
  readonly maxOutputBytes: number;
  /** What is wrong with structuredContent; null: nothing, or nobody could tell. */
  readonly outputProblem: string | null;
  readonly redact: Redact;
  /** A tool can read its server's environment: what it found there is not for the model. */
  readonly redactContent: Redact;
}

export function convertResult(result: JsonObject, context: ResultContext): ToolOutput {
  const { serverId, toolName } = context;
  try {
    const { content = [], structuredContent } = result;
    if (!Array.isArray(content) || !content.every(isBlock)) {
      throw new McpToolError(serverId, toolName, `tool "${toolName}" answered with content that is not valid`);
    }
    const failure = failureOf(result, content, context);
    const shown = redactStrings(content, context.redactContent);
    const structured = failure === null ? redactStrings(structuredContent, context.redactContent) : undefined;
    const json = encode(shown, structured, failure);
    const bytes = Buffer.byteLength(json);
    if (bytes <= context.maxOutputBytes) return { json, error: failure };
    const message = `the result of tool "${toolName}" has ${bytes} bytes, at most ${context.maxOutputBytes} are allowed; it was cut`;
    return truncated(shown, toToolError(new McpOutputError(serverId, message)), context.maxOutputBytes);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new McpToolError(serverId, toolName, `the result of tool "${toolName}" is nested too deeply`);
  }
}

/** The same for a call that has no result. */
export function convertError(error: unknown, maxOutputBytes: number): ToolOutput {
  const toolError = toToolError(error);
  if (error instanceof McpOutputError && error.head !== '') {
    return truncated([{ type: 'text', text: error.head }], toolError, maxOutputBytes, true);
  }
  return { json: encode(null, undefined, toolError), error: toolError };
}

interface Block extends JsonObject {
  type: string;
}

function isBlock(value: JsonValue): value is Block {
  return isJsonObject(value) && typeof value.type === 'string';
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

// Redacted before it is cut: half a secret is not found any more.
function firstText(content: readonly Block[], redact: Redact): string {
  for (const block of content) {
    if (block.type === 'text' && typeof block.text === 'string') return cutText(redact(block.text), MAX_MESSAGE_CHARS);
  }
  return '';
}

function encode(content: JsonValue[] | null, structured: JsonValue | undefined, error: ToolError | null): string {
  return canonicalJson({
    ...(content === null ? {} : { content }),
    ...(error === null ? {} : { error: { ...error } }),
    ...(structured === undefined ? {} : { structuredContent: structured }),
  });
}

/** `unfinished`: the last text goes on where it ends, even if it fits. */
function truncated(content: readonly Block[], error: ToolError, maxBytes: number, unfinished = false): ToolOutput {
  const kept: JsonValue[] = [];
  let room = maxBytes - Buffer.byteLength(encode([], undefined, error));
  for (const block of content) {
    const bytes = Buffer.byteLength(canonicalJson(block));
    if (bytes < room && !unfinished) {
      kept.push(block);
      room -= bytes + 1;
      continue;
    }
    const cut = cutBlock(block, room - 1);
    if (cut !== null) {
      kept.push(cut);
      break;
    }
    const note: Block = { type: 'text', text: `[${block.type} of ${bytes} bytes left out]` };
    const noteBytes = Buffer.byteLength(canonicalJson(note)) + 1;
    if (noteBytes > room) break;
    kept.push(note);
    room -= noteBytes;
  }
  const json = encode(kept, undefined, error);
  // A bound smaller than the error itself cannot be kept; the error is what matters then.
  return { json: Buffer.byteLength(json) <= maxBytes ? json : encode(null, undefined, error), error };
}

/** The block with its text cut so that all of it has at most `maxBytes`; null where it has no text, or no room for one. */
function cutBlock(block: Block, maxBytes: number): Block | null {
  const holder = block.type === 'resource' && isJsonObject(block.resource) ? block.resource : block;
  if (typeof holder.text !== 'string') return null;
  const text = holder.text;
  const withText = (value: string): Block =>
    holder === block ? { ...block, text: value } : { ...block, resource: { ...holder, text: value } };
  const room = maxBytes - Buffer.byteLength(canonicalJson(withText(TRUNCATION_MARK)));
  if (room <= 0) return null;
  return withText(text.slice(0, unitsThatFit(text, room)) + TRUNCATION_MARK);
}
