import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { HostReply } from '../port/port.ts';

/** The result of a tool call, as it stands in the journal. */
export interface NamedResult {
  readonly ordinal: string;
  readonly json: string;
}

/** A reply as JSON text. `result`: one that stands in the journal already, and is named instead where it comes again. */
export function replyToJson(reply: HostReply, result: NamedResult | null): string {
  let json = '';
  for (const part of reply as readonly unknown[]) {
    json += json === '' ? '[' : ',';
    if (part === null) json += 'null';
    else if (typeof part === 'object' && part instanceof Uint8Array) {
      json += `{"$bytes":"${Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString('base64')}"}`;
    } else if (result !== null && part === result.json) json += `{"$result":${JSON.stringify(result.ordinal)}}`;
    else json += JSON.stringify(part);
  }
  return `${json}]`;
}

export function replyFromJson(parts: readonly JsonValue[], resultOf: (ordinal: string) => string | null): HostReply {
  return parts.map((part) => {
    if (!isJsonObject(part)) return part;
    if (typeof part.$bytes === 'string') return new Uint8Array(Buffer.from(part.$bytes, 'base64'));
    return typeof part.$result === 'string' ? resultOf(part.$result) : part;
  }) as unknown as HostReply;
}

/** A message to a model; a result that stands in the journal already is named instead. */
export function withResultNamed(message: JsonObject, results: readonly NamedResult[]): JsonObject {
  if (message.role !== 'tool') return message;
  const known = results.find(({ json }) => json === message.content);
  return known === undefined ? message : { ...message, content: { $result: known.ordinal } };
}

export function withResultTold(message: JsonObject, resultOf: (ordinal: string) => string | null): JsonObject {
  const { content } = message;
  if (!isJsonObject(content) || typeof content.$result !== 'string') return message;
  return { ...message, content: resultOf(content.$result) };
}
