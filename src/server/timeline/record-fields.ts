import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { ShowText } from './shown-text.ts';
import type { ErrorShown, ModelEntry, Tokens } from './timeline-entry.ts';

/*
 * The chain of a journal proves that it was not changed, not that Spear wrote it. So a timeline checks the type of every
 * field before it shows the field.
 */

export const textIn = (value: JsonValue | undefined): string => (typeof value === 'string' ? value : '');

export const textOrNull = (value: JsonValue | undefined): string | null => (typeof value === 'string' ? value : null);

export const countIn = (value: JsonValue | undefined): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;

export const base64In = (value: JsonValue | undefined): Buffer => Buffer.from(textIn(value), 'base64');

/** `{"$bytes": base64}`, as replies have them. */
export const bytesIn = (value: JsonValue | undefined): Buffer =>
  base64In(isJsonObject(value) ? value.$bytes : undefined);

/** A tool call as the model wrote it. */
export interface ModelCall {
  readonly id: string;
  readonly name: string;
  readonly args: string;
}

/** What a `model.answered` tells. */
export function answerShown(
  { body, error }: JsonObject,
  show: ShowText,
): Pick<ModelEntry, 'text' | 'tokens' | 'error'> & { readonly calls: readonly ModelCall[] } {
  const message = messageOf(body);
  const said = textOf(message.content);
  return {
    text: said === '' ? null : show(said),
    tokens: tokensOf(body),
    error: isJsonObject(error) ? errorShown(error, show) : null,
    calls: callsOf(message),
  };
}

/** The message of a completion; an empty one where there is none. */
export function messageOf(body: JsonValue | undefined): JsonObject {
  const choice = isJsonObject(body) && Array.isArray(body.choices) ? body.choices[0] : undefined;
  return isJsonObject(choice) && isJsonObject(choice.message) ? choice.message : {};
}

export function callsOf({ tool_calls: calls }: JsonObject): ModelCall[] {
  if (!Array.isArray(calls)) return [];
  return calls.flatMap((call) => {
    if (!isJsonObject(call) || !isJsonObject(call.function)) return [];
    const { name, arguments: args } = call.function;
    const given = typeof args === 'string' ? args : JSON.stringify(args ?? {});
    return [{ id: String(call.id ?? ''), name: String(name ?? ''), args: given }];
  });
}

/** A string, or the text parts of a list of parts. */
function textOf(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.flatMap((part) => (isJsonObject(part) && typeof part.text === 'string' ? [part.text] : [])).join('\n');
}

/** As the backend counted them; null where it did not. */
function tokensOf(body: JsonValue | undefined): Tokens | null {
  const usage = isJsonObject(body) ? body.usage : undefined;
  if (!isJsonObject(usage)) return null;
  const { prompt_tokens: prompt, completion_tokens: completion } = usage;
  if (!prompt && !completion) return null;
  return { prompt: countIn(prompt), completion: countIn(completion) };
}

function errorShown({ code, message }: JsonObject, show: ShowText): ErrorShown {
  return { code: String(code ?? ''), message: show(String(message ?? '')).text };
}
