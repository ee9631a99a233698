import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';

/** The text of a message: its string, or the text parts of a list of parts, one line each. */
export function messageText(message: JsonObject | undefined): string {
  const content: JsonValue | undefined = message?.content;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.flatMap((part) => (isJsonObject(part) && typeof part.text === 'string' ? [part.text] : [])).join('\n');
}

/** What is waited for when a model is asked, for people. */
export function answerOf(backend: string, model: unknown): string {
  const named = typeof model === 'string' ? ` (${model})` : '';
  return `a response of backend ${JSON.stringify(backend)}${named}`;
}
