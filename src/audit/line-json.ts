import { cutText } from '../base/cut-text.ts';
import { knownSecrets } from '../secrets/redactor.ts';
import type { AuditChainEvent, AuditEvent } from './event.ts';

/** A longer line is written again with its texts and lists cut: names and ids come from models and servers. */
export const MAX_LINE_CHARS = 32_768;
/** The same for lines that cost their maker nothing. */
export const MAX_CHEAP_LINE_CHARS = 2_048;
const CUT_TEXT_CHARS = 512;
const CUT_LIST_ITEMS = 32;

/** What a line is made from. */
export interface LineSource {
  readonly task: string | null;
  readonly instance: string | null;
  readonly event: AuditEvent | AuditChainEvent;
  readonly atMs: number;
  readonly maxChars: number;
}

/** An event as JSON text, without what the chain adds to it and without any secret that this process knows. */
export function auditJson(
  task: string | null,
  instance: string | null,
  event: AuditEvent | AuditChainEvent,
  now: Date = new Date(),
): string {
  const [text] = auditTexts([{ task, instance, event, atMs: now.getTime(), maxChars: MAX_LINE_CHARS }]);
  return text as string;
}

/** The same of many events, with the secrets that are known by now. */
export function auditTexts(lines: readonly LineSource[]): string[] {
  const texts = knownSecrets.jsonTexts(lines.map(plainText));
  // Cut last: what is left of half a secret would not be known as one.
  return texts.map((text, at) => (text.length <= (lines[at] as LineSource).maxChars ? text : cutLine(text)));
}

function plainText({ task, instance, event, atMs }: LineSource): string {
  const name = `"event":"${event.event}"`;
  // The line is the text of the event with three fields more: an object of all would cost more than its text.
  let text = JSON.stringify(event);
  if (!text.startsWith(name, 1)) text = JSON.stringify(nameFirst(event));
  return `{"ts":"${timeText(atMs)}",${name},${aboutText(task, instance)}${text.slice(name.length + 1)}`;
}

let lastAbout = { task: null as string | null, instance: null as string | null, text: '"task":null,"instance":null' };

/** Lines of one batch are often of one run. */
function aboutText(task: string | null, instance: string | null): string {
  if (lastAbout.task !== task || lastAbout.instance !== instance) {
    lastAbout = { task, instance, text: `"task":${JSON.stringify(task)},"instance":${JSON.stringify(instance)}` };
  }
  return lastAbout.text;
}

function nameFirst({ event, ...about }: LineSource['event']): object {
  return { event, ...about };
}

let lastTime = { atMs: 0, text: new Date(0).toISOString() };

/** Lines of one batch are often of one millisecond. */
function timeText(atMs: number): string {
  if (lastTime.atMs !== atMs) lastTime = { atMs, text: new Date(atMs).toISOString() };
  return lastTime.text;
}

const cutLine = (text: string) => JSON.stringify(cut({ ...JSON.parse(text), truncated: true }));

function cut(value: unknown): unknown {
  if (typeof value === 'string') return cutText(value, CUT_TEXT_CHARS);
  if (Array.isArray(value)) return value.slice(0, CUT_LIST_ITEMS).map(cut);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cut(item)]));
}
