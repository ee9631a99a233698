// Apart from outcome.ts, whose types are part of the library.
import { hash } from 'node:crypto';
import type { ChatRequest } from '../../agent/chat/backend.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { startOf } from '../../base/text.ts';
import type { RecordedRequest } from './recorded-history.ts';

/** Characters shown around the first difference of two texts. */
const BEFORE_CHARS = 24;
const CONTEXT_CHARS = 160;

export interface TwoTexts {
  readonly what: string;
  readonly recorded: string;
  readonly now: string;
}

/** First difference between a request and the recorded one; null: none. */
export function requestDifference(recorded: RecordedRequest, request: ChatRequest): TwoTexts | null {
  if (hash('sha256', JSON.stringify(request)) === recorded.asked.sha256) return null;
  const { messages, tools, ...head } = request;
  return (
    messageDifference(recorded.messages, messages) ??
    headDifference(recorded.asked.head ?? {}, head) ??
    toolDifference(recorded.tools, namesOf(tools)) ?? {
      what: 'tools',
      recorded: recorded.tools.join(', '),
      now: 'the same names, but a description or parameters changed',
    }
  );
}

function messageDifference(before: readonly JsonObject[], now: readonly JsonObject[]): TwoTexts | null {
  const length = Math.max(before.length, now.length);
  for (let at = 0; at < length; at++) {
    const [one, other] = [before[at], now[at]];
    if (JSON.stringify(one) === JSON.stringify(other)) continue;
    const [recorded, said] = aroundDifference(messageText(one), messageText(other));
    return { what: `message ${at + 1}`, recorded, now: said };
  }
  return null;
}

function headDifference(before: JsonObject, now: JsonObject): TwoTexts | null {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(now)])];
  const key = keys.find((name) => JSON.stringify(before[name]) !== JSON.stringify(now[name]));
  if (key === undefined) return null;
  const [recorded, said] = aroundDifference(valueText(before[key]), valueText(now[key]));
  return { what: key, recorded, now: said };
}

function toolDifference(before: readonly string[], now: readonly string[]): TwoTexts | null {
  const gone = before.filter((name) => !now.includes(name));
  const added = now.filter((name) => !before.includes(name));
  if (gone.length === 0 && added.length === 0) return null;
  const parts = [
    gone.length === 0 ? '' : `without ${gone.join(', ')}`,
    added.length === 0 ? '' : `with ${added.join(', ')}`,
  ];
  return { what: 'tools', recorded: before.join(', ') || 'none', now: parts.filter(Boolean).join(', ') };
}

const namesOf = (tools: JsonValue | undefined): string[] =>
  Array.isArray(tools)
    ? tools.map((tool) => String(isJsonObject(tool) && isJsonObject(tool.function) ? tool.function.name : ''))
    : [];

function messageText(message: JsonObject | undefined): string {
  if (message === undefined) return 'none';
  const { role, content, ...more } = message;
  const said = typeof content === 'string' ? content : JSON.stringify(content ?? null);
  const rest = Object.keys(more).length === 0 ? '' : ` ${JSON.stringify(more)}`;
  return `${role}: ${said}${rest}`;
}

const valueText = (value: JsonValue | undefined): string => (value === undefined ? 'none' : JSON.stringify(value));

/** Excerpts of both texts around their first difference. */
export function aroundDifference(one: string, other: string): [string, string] {
  let at = 0;
  while (at < one.length && at < other.length && one[at] === other[at]) at += 1;
  const from = Math.max(0, at - BEFORE_CHARS);
  const shown = (text: string) => {
    const cut = startOf(text.slice(from), CONTEXT_CHARS);
    return `${from > 0 ? '…' : ''}${cut}${from + cut.length < text.length ? '…' : ''}`;
  };
  return [shown(one), shown(other)];
}
