import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import type { ChatRequest } from '../backend.ts';

interface WrittenList {
  count: number;
  last: JsonValue | undefined;
  /** The items, with commas between them. */
  text: string;
}

/**
 * What was written of a list. A conversation only grows, and each of its requests has all of it: what was sent before is
 * sent as the text that it was, and only what is new becomes text.
 */
const written = new WeakMap<readonly JsonValue[], WrittenList>();

/** A request as JSON. Neither its messages nor its tools change once they were sent; both lists may grow. */
export function requestBody(request: ChatRequest): string {
  // Put together, not joined: what has all messages is copied once, when it is sent.
  let text = '';
  for (const [key, value] of Object.entries(askingForUsage(request))) {
    const grows = (key === 'messages' || key === 'tools') && Array.isArray(value);
    text += `${text === '' ? '{' : ','}${JSON.stringify(key)}:${grows ? listText(value) : JSON.stringify(value)}`;
  }
  return text === '' ? '{}' : `${text}}`;
}

/** A stream is asked to tell its token usage, as an answer in one piece does, unless the guest decided about that. */
function askingForUsage(request: ChatRequest): ChatRequest {
  if (request.stream !== true) return request;
  const given = request.stream_options;
  if (given !== undefined && given !== null && !isJsonObject(given)) return request;
  return { ...request, stream_options: { include_usage: true, ...given } };
}

function listText(items: readonly JsonValue[]): string {
  const list = writtenOf(items);
  for (; list.count < items.length; list.count++) {
    list.last = items[list.count];
    list.text += (list.count === 0 ? '' : ',') + itemText(list.last as JsonValue);
  }
  return `[${list.text}]`;
}

/** The definition of a tool is the same object in every send, among whichever others it stands. */
const definitions = new WeakMap<JsonObject, string>();

function itemText(item: JsonValue): string {
  if (!isJsonObject(item) || item.type !== 'function') return JSON.stringify(item);
  const text = definitions.get(item) ?? JSON.stringify(item);
  definitions.set(item, text);
  return text;
}

function writtenOf(items: readonly JsonValue[]): WrittenList {
  const known = written.get(items);
  // Nobody takes anything out of a list; if somebody did, it would be another one.
  if (known !== undefined && known.count <= items.length && items[known.count - 1] === known.last) return known;
  const list: WrittenList = { count: 0, last: undefined, text: '' };
  written.set(items, list);
  return list;
}
