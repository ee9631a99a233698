import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';

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
  return `an answer of backend ${JSON.stringify(backend)}${named}`;
}

/** At most so many characters, never half of one, with an ellipsis where something was cut. */
export function cutText(text: string, maxCharacters: number): string {
  // A character is at most two units, so this is enough to see whether there are more.
  const characters = [...text.slice(0, (maxCharacters + 1) * 2)];
  return characters.length <= maxCharacters ? text : `${characters.slice(0, maxCharacters).join('')}…`;
}
