import { cutText } from '../base/cut-text.ts';
import { knownSecrets } from '../secrets/redactor.ts';
import type { AuditChainEvent, AuditEvent } from './event.ts';

/** A longer line is written again with its texts and lists cut: names and ids come from models and servers. */
export const MAX_LINE_CHARS = 32_768;
/** The same for lines that cost their maker nothing. */
export const MAX_CHEAP_LINE_CHARS = 2_048;
const CUT_TEXT_CHARS = 512;
const CUT_LIST_ITEMS = 32;

/** An event as JSON text, without what the chain adds to it and without any secret that this process knows. */
export function auditJson(
  task: string | null,
  instance: string | null,
  event: AuditEvent | AuditChainEvent,
  now: Date = new Date(),
  maxChars = MAX_LINE_CHARS,
): string {
  const { event: name, ...about } = event;
  const line = { ts: now.toISOString(), event: name, task, instance, ...about };
  const text = knownSecrets.json(line);
  return text.length <= maxChars ? text : JSON.stringify(cut({ ...JSON.parse(text), truncated: true }));
}

function cut(value: unknown): unknown {
  if (typeof value === 'string') return cutText(value, CUT_TEXT_CHARS);
  if (Array.isArray(value)) return value.slice(0, CUT_LIST_ITEMS).map(cut);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cut(item)]));
}
