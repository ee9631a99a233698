import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import type { ChatRequest } from '../backend.ts';

interface WrittenList {
  count: number;
  last: JsonValue | undefined;
  /** JSON of the items, separated by commas. */
  text: string;
}

/**
 * JSON text of lists that were serialized before. A conversation only grows and every request contains all of it, so
 * only new items are serialized.
 */
const written = new WeakMap<readonly JsonValue[], WrittenList>();

/** Serializes a request. Precondition: sent messages and tools do not change; both lists may grow. */
export function requestBody(request: ChatRequest): string {
  // Concatenation builds a rope: the text of all messages is copied once, when it is sent.
  let text = '';
  for (const [key, value] of Object.entries(askingForUsage(request))) {
    const grows = (key === 'messages' || key === 'tools') && Array.isArray(value);
    text += `${text === '' ? '{' : ','}${JSON.stringify(key)}:${grows ? listText(value) : JSON.stringify(value)}`;
  }
  return text === '' ? '{}' : `${text}}`;
}

/** Requests token usage for a stream, unless the guest set that option. */
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

/** JSON text by tool definition, which is the same object in every send. */
const definitions = new WeakMap<JsonObject, string>();

function itemText(item: JsonValue): string {
  if (!isJsonObject(item) || item.type !== 'function') return JSON.stringify(item);
  const text = definitions.get(item) ?? JSON.stringify(item);
  definitions.set(item, text);
  return text;
}

function writtenOf(items: readonly JsonValue[]): WrittenList {
  const known = written.get(items);
  // A list that lost items counts as another list.
  if (known !== undefined && known.count <= items.length && items[known.count - 1] === known.last) return known;
  const list: WrittenList = { count: 0, last: undefined, text: '' };
  written.set(items, list);
  return list;
}
