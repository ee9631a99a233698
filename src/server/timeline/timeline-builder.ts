import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { TimedRecord } from '../../runtime/durable/journal.ts';
import { answerShown } from './answer-shown.ts';
import { base64In, bytesIn, countIn, textIn, textOrNull } from './record-fields.ts';
import type { ShowText } from './shown-text.ts';
import { errorIn, TimelineCalls } from './timeline-calls.ts';
import { type Draft, TimelineDraft } from './timeline-draft.ts';
import type { Attempt, ErrorShown, ModelEntry, SendEntry, TimelineEntry } from './timeline-entry.ts';

const timerFired = /:t\d/g;

/** Reads the records of a journal in their order, and keeps in mind what is not over yet. */
export class TimelineBuilder {
  readonly #draft: TimelineDraft;
  readonly #calls: TimelineCalls;
  readonly #sends = new Map<number, Draft<SendEntry>>();
  /** Requests that wait for their answer. */
  readonly #asked = new Map<number, Draft<ModelEntry>>();

  constructor(show: ShowText) {
    this.#draft = new TimelineDraft(show);
    this.#calls = new TimelineCalls(this.#draft, (call) => void this.#send(call));
  }

  take(timed: TimedRecord): void {
    const record = timed as unknown as JsonObject;
    const before = this.#draft.ms;
    this.#draft.advance(countIn(record.ms));
    if (timed.t !== 'resumed') this.#draft.lives();
    switch (timed.t) {
      case 'guest':
        this.#guest(textIn(record.e), before);
        break;
      case 'model.asked':
        this.#modelAsked(record);
        break;
      case 'model.answered':
        this.#modelAnswered(record);
        break;
      case 'tool.started':
        this.#calls.started(record);
        break;
      case 'tool.finished':
        this.#calls.finished(textIn(record.ordinal), textIn(record.result), textOrNull(record.code));
        break;
      case 'approval':
        this.#calls.approval(isJsonObject(record.event) ? record.event : {});
        break;
      case 'output':
        this.#output(record);
        break;
      case 'reply':
        this.#reply(countIn(record.call), Array.isArray(record.m) ? record.m : [], record.send);
        break;
      case 'resumed':
        this.#resumed(countIn(record.attempt), textIn(record.spear));
        break;
      case 'end':
        this.#end(record);
    }
  }

  finish(): { readonly entries: readonly TimelineEntry[]; readonly attempts: readonly Attempt[] } {
    this.#draft.text.end();
    const { entries, attempts } = this.#draft;
    // Some are found out about later than they happened.
    return { entries: entries.toSorted((a, b) => a.start_ms - b.start_ms), attempts };
  }

  #guest(events: string, before: number): void {
    const timers = events.match(timerFired)?.length ?? 0;
    if (timers > 0) this.#draft.add({ kind: 'wait', ...this.#draft.now('ok'), start_ms: before, timers });
  }

  #output({ fd, at, b }: JsonObject): void {
    this.#draft.text.printed(fd === 'stderr' ? 'stderr' : 'stdout', countIn(at), base64In(b), this.#draft.ms);
  }

  #modelAsked(record: JsonObject): void {
    const call = countIn(record.call);
    const { last } = record;
    this.#send(call);
    this.#calls.endCallback(call);
    const entry: Draft<ModelEntry> = this.#draft.add({
      kind: 'model',
      ...this.#draft.since('open', call),
      turn: countIn(record.n) + 1,
      backend: textIn(record.backend),
      model: textOrNull(record.model),
      asked: isJsonObject(last) ? { role: textIn(last.role), text: this.#shown(last.text) } : null,
      first_ms: null,
      tokens: null,
      text: null,
      calls: [],
      error: null,
    });
    this.#asked.set(call, entry);
  }

  #modelAnswered(record: JsonObject): void {
    const call = countIn(record.call);
    const entry = this.#asked.get(call);
    const { show, ms } = this.#draft;
    const { calls, ...shown } = answerShown(record, show);
    this.#calls.wanted(call, calls);
    this.#asked.delete(call);
    if (entry === undefined) return;
    const wanted = calls.map(({ id, name, args }) => ({ id, name, args: show(args) }));
    Object.assign(entry, shown, { calls: wanted, end_ms: ms, status: shown.error === null ? 'ok' : 'failed' });
  }

  #reply(call: number, [what, ...rest]: readonly JsonValue[], send: JsonValue | undefined): void {
    switch (what) {
      case 'events': {
        const asked = this.#asked.get(call);
        if (asked !== undefined) asked.first_ms ??= this.#draft.ms;
        break;
      }
      case 'tool':
        this.#calls.callback(call, textIn(rest[2]));
        break;
      case 'response':
        this.#responded(call, textIn(rest[0]), isJsonObject(send) ? send : {});
        break;
      case 'done':
        this.#done(call, textOrNull(rest[0]), textOrNull(rest[1]));
        break;
      case 'stdin':
        this.#draft.text.read(bytesIn(rest[0]), this.#draft.ms);
        break;
      case 'stream_frame':
        this.#frame(bytesIn(rest[0]).byteLength);
        break;
      case 'stream_end':
        this.#stream('end');
        break;
      case 'stream_gone':
        this.#stream('gone');
        break;
      case 'stream_event':
        this.#stream('event');
    }
  }

  #responded(call: number, body: string, send: JsonObject): void {
    this.#calls.endCallback(call);
    const messages = Array.isArray(send.messages) ? send.messages : [];
    for (const message of messages) {
      if (isJsonObject(message) && message.role === 'tool') this.#calls.message(call, message);
    }
    this.#endSend(call, errorIn(body));
  }

  /** The last word about a send that failed, about a tool call of the guest's own, or about anything else. */
  #done(call: number, errno: string | null, body: string | null): void {
    if (this.#sends.has(call)) {
      this.#calls.endCallback(call);
      this.#endSend(call, errno === null ? null : { code: errno, message: '' });
    } else if (!this.#calls.isTool(call)) {
      const status = errno === null ? 'ok' : 'failed';
      this.#draft.add({ kind: 'reply', ...this.#draft.now(status), call, errno, body: this.#shown(body) });
    }
  }

  #frame(bytes: number): void {
    const last = this.#draft.entries.at(-1);
    const goesOn = last?.kind === 'stream' && last.what === 'frames' && !this.#draft.text.isOpen;
    if (!goesOn) this.#stream('frames', 1, bytes);
    else Object.assign(last, { end_ms: this.#draft.ms, frames: last.frames + 1, bytes: last.bytes + bytes });
  }

  #stream(what: 'frames' | 'end' | 'gone' | 'event', frames = 0, bytes = 0): void {
    this.#draft.add({ kind: 'stream', ...this.#draft.now('ok'), what, frames, bytes });
  }

  #resumed(attempt: number, spear: string): void {
    this.#sends.clear();
    this.#asked.clear();
    this.#calls.forget();
    this.#draft.resumed(attempt);
    this.#draft.add({ kind: 'resumed', ...this.#draft.now('ok'), attempt, spear });
  }

  #end({ reason, exit, message }: JsonObject): void {
    const exit_code = typeof exit === 'number' ? exit : null;
    const status = reason === 'exit' && exit_code === 0 ? 'ok' : 'failed';
    const said = this.#shown(message)?.text ?? null;
    this.#draft.add({ kind: 'end', ...this.#draft.now(status), reason: textIn(reason), exit_code, message: said });
  }

  #send(call: number): Draft<SendEntry> {
    const known = this.#sends.get(call);
    if (known !== undefined) return known;
    const entry: Draft<SendEntry> = this.#draft.add({ kind: 'send', ...this.#draft.since('open', call), error: null });
    this.#sends.set(call, entry);
    return entry;
  }

  #endSend(call: number, error: ErrorShown | null): void {
    const shown = error && { code: error.code, message: this.#draft.show(error.message).text };
    const status = error === null ? 'ok' : 'failed';
    Object.assign(this.#send(call), { end_ms: this.#draft.ms, status, error: shown });
    this.#sends.delete(call);
  }

  #shown(value: JsonValue | undefined) {
    return typeof value === 'string' ? this.#draft.show(value) : null;
  }
}
