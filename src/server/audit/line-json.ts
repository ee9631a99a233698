import { cutText } from '../../base/text.ts';
import { knownSecrets } from '../secrets/redactor.ts';
import type { AuditChainEvent, AuditEvent } from './event.ts';

/** A longer line is written again with its texts and lists cut: names and ids come from models and servers. */
export const MAX_LINE_CHARS = 32_768;
/** The same for lines that cost their maker nothing. */
export const MAX_CHEAP_LINE_CHARS = 2_048;
const CUT_TEXT_CHARS = 512;
const CUT_LIST_ITEMS = 32;

/** Lines of many events: what each says, and how long it may be. */
export class LineTexts {
  readonly #texts: string[] = [];
  readonly #maxChars: number[] = [];

  add(
    task: string | null,
    instance: string | null,
    event: AuditEvent | AuditChainEvent,
    atMs: number,
    maxChars: number,
  ): void {
    this.#texts.push(plainText(task, instance, event, atMs));
    this.#maxChars.push(maxChars);
  }

  /** As JSON texts, without the secrets that are known by now. */
  clean(): string[] {
    const texts = knownSecrets.jsonTexts(this.#texts);
    // Cut last: what is left of half a secret would not be known as one.
    return texts.map((text, at) => (text.length <= (this.#maxChars[at] as number) ? text : cutLine(text)));
  }
}

/** An event as JSON text, without what the chain adds to it and without any secret that this process knows. */
export function auditJson(
  task: string | null,
  instance: string | null,
  event: AuditEvent | AuditChainEvent,
  now: Date = new Date(),
): string {
  const lines = new LineTexts();
  lines.add(task, instance, event, now.getTime(), MAX_LINE_CHARS);
  return lines.clean()[0] as string;
}

function plainText(
  task: string | null,
  instance: string | null,
  event: AuditEvent | AuditChainEvent,
  atMs: number,
): string {
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

function nameFirst({ event, ...about }: AuditEvent | AuditChainEvent): object {
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
