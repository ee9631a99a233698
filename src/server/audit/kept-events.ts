import { type JsonValue, parseJson } from '../../base/json.ts';
import { cutArguments, textKept } from './arguments.ts';
import type { AuditArguments, AuditEvent, AuditSink, CallFinished, CallStarted } from './event.ts';
import { type Folding, foldedKind, refusedKind } from './fold.ts';
import { LineTexts, MAX_CHEAP_LINE_CHARS, MAX_LINE_CHARS } from './line-json.ts';

/** What is kept of the arguments of a call that was refused before anything was sent, in characters. */
export const REFUSED_ARGUMENT_CHARS = 1_024;
/** About what a line has beside the texts of its event. */
const LINE_CHARS = 512;
/** About what an item of a list has beside its texts. */
const ITEM_CHARS = 8;
/** A list of objects is the most that any event has. */
const MAX_KEPT_DEPTH = 2;
/** Of a larger event the line is made at once, and cut: names and arguments come from models and servers. */
export const MAX_KEPT_CHARS = 8_192;

/** Something that happened, until its lines are made. */
export interface Happened {
  readonly task: string | null;
  readonly instance: string | null;
  readonly event: AuditEvent;
  /** The end of a call that was refused before anything was sent; `event` is its beginning then. */
  readonly refused: CallFinished | null;
  readonly atMs: number;
}

/**
 * What happened and has no line yet, oldest first. Lines are made many at a time: in the middle of a call each would cost
 * more than all checks of the call together.
 */
export class KeptEvents {
  #events: Happened[] = [];
  #chars = 0;

  get count(): number {
    return this.#events.length;
  }

  /** About what their lines will have. */
  get chars(): number {
    return this.#chars;
  }

  /** False, and nothing kept, if that would be more than `room` characters, or is no event to keep. */
  add({ task, instance, event, refused, atMs }: Happened, room: number): boolean {
    const first = copyOf(event);
    const second = refused && copyOf(refused);
    const chars = first.chars + (second?.chars ?? 0);
    if (chars > MAX_KEPT_CHARS || this.#chars + chars > room) return false;
    this.#events.push({ task, instance, event: first.copy, refused: second?.copy ?? null, atMs });
    this.#chars += chars;
    return true;
  }

  takeAll(): readonly Happened[] {
    const events = this.#events;
    this.#events = [];
    this.#chars = 0;
    return events;
  }
}

function charsIn(value: JsonValue | undefined, depth: number): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  const text = textKept(value as AuditArguments);
  if (text !== null) return text.length;
  if (depth === 0) return Number.POSITIVE_INFINITY;
  let chars = 0;
  for (const [key, item] of Object.entries(value)) chars += key.length + ITEM_CHARS + charsIn(item, depth - 1);
  return chars;
}

/**
 * A copy, because whoever told of it may go on with the object, and about what its line has: infinite, and nothing more
 * is copied, where something in it is nested deeper than any event is. Almost all that an event has are texts and numbers.
 */
function copyOf<Event extends AuditEvent>(event: Event): { readonly copy: Event; readonly chars: number } {
  const copy: Record<string, unknown> = { ...event };
  let chars = LINE_CHARS;
  for (const key in copy) {
    const value = copy[key];
    if (typeof value === 'string') chars += value.length;
    else if (typeof value === 'object' && value !== null) {
      chars += charsIn(value as JsonValue, MAX_KEPT_DEPTH);
      if (chars <= MAX_KEPT_CHARS) copy[key] = copyIn(value as JsonValue);
    }
  }
  return { copy: copy as Event, chars };
}

function copyIn(value: JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null || textKept(value as AuditArguments) !== null) return value;
  if (Array.isArray(value)) return value.map(copyIn);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, copyIn(item)]));
}

/** The JSON texts of the lines; what `folding` counts has none. */
export function textsOf(
  happened: readonly Happened[],
  folding: Folding,
  show: NonNullable<AuditSink['showArguments']>,
): string[] {
  const lines = new LineTexts();
  for (const { task, instance, event, refused, atMs } of happened) {
    const kind = refused === null ? foldedKind(event) : refusedKind(refused);
    if (kind !== null && !folding.admits(task, instance, kind, atMs)) continue;
    const maxChars = kind === null ? MAX_LINE_CHARS : MAX_CHEAP_LINE_CHARS;
    const first = event.event === 'tool_call.started' ? shown(event, refused !== null, show) : event;
    lines.add(task, instance, first, atMs, maxChars);
    if (refused !== null) lines.add(task, instance, refused, atMs, maxChars);
  }
  return lines.clean();
}

function shown(event: CallStarted, isRefused: boolean, show: NonNullable<AuditSink['showArguments']>): CallStarted {
  const text = textKept(event.args);
  const args = text === null ? event.args : show(parseJson(text));
  return { ...event, args: isRefused ? cutArguments(args, REFUSED_ARGUMENT_CHARS) : args };
}
