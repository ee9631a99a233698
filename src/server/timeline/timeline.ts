import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { TimedRecord } from '../../runtime/durable/journal.ts';
import type { ReadJournal } from '../../runtime/durable/read-journal.ts';
import { answerShown, base64In, bytesIn, countIn, textIn, textOrNull } from './record-fields.ts';
import { type ShowText, textShower } from './shown-text.ts';
import { errorIn, TimelineCalls } from './timeline-calls.ts';
import { type Draft, TimelineDraft } from './timeline-draft.ts';
import {
  type Attempt,
  durationOf,
  type ErrorShown,
  type ModelEntry,
  type OutputEntry,
  type SendEntry,
  type Timeline,
  type TimelineEntry,
  type TimelineTotals,
} from './timeline-entry.ts';

export interface TimelineOptions {
  /** Texts are not cut. They are masked all the same. @default false */
  readonly full?: boolean;
}

/** What a journal tells, for people. */
export function timelineOf({ header, records, tornBytes }: ReadJournal, options: TimelineOptions = {}): Timeline {
  const show = textShower(options.full ?? false);
  const builder = new TimelineBuilder(show);
  for (const record of records) builder.take(record);
  const { entries, attempts } = builder.finish();
  const end = entries.findLast((entry) => entry.kind === 'end' || entry.kind === 'resumed');
  const { run, started, spear, task, wasm, args, env } = header as unknown as JsonObject;
  const module = isJsonObject(wasm) ? wasm : {};
  return {
    run: textIn(run),
    started: countIn(started),
    spear: textIn(spear),
    task: textOrNull(task),
    module: { path: textOrNull(module.path), sha256: textIn(module.sha256), bytes: countIn(module.bytes) },
    args: Array.isArray(args) ? args.map((argument) => show(textIn(argument))) : [],
    env: isJsonObject(env) ? Object.keys(env) : [],
    attempts,
    ended: end?.kind === 'end' ? { reason: end.reason, exit_code: end.exit_code, message: end.message } : null,
    torn_bytes: tornBytes,
    totals: totalsOf(entries),
    entries,
  };
}

function totalsOf(entries: readonly TimelineEntry[]): TimelineTotals {
  const models = entries.filter((entry) => entry.kind === 'model');
  const tools = entries.filter((entry) => entry.kind === 'tool');
  const approvals = entries.filter((entry) => entry.kind === 'approval');
  const output = entries.filter((entry) => entry.kind === 'output');
  const printed = (fd: OutputEntry['fd']) => sum(output, (entry) => (entry.fd === fd ? entry.bytes : 0));
  return {
    model_turns: models.length,
    prompt_tokens: sum(models, ({ tokens }) => tokens?.prompt ?? 0),
    completion_tokens: sum(models, ({ tokens }) => tokens?.completion ?? 0),
    model_ms: sum(models, durationOf),
    tool_calls: tools.filter(({ attempt, status }) => attempt !== null || status !== 'unknown').length,
    tool_ms: sum(tools, durationOf),
    // A later attempt tells the guest of a call once more.
    unknown: new Set(tools.filter(({ status }) => status === 'unknown').map(({ ordinal }) => ordinal)).size,
    approvals: approvals.length,
    approval_ms: sum(approvals, durationOf),
    stdout_bytes: printed('stdout'),
    stderr_bytes: printed('stderr'),
  };
}

const sum = <Item>(items: readonly Item[], of: (item: Item) => number): number =>
  items.reduce((total, item) => total + of(item), 0);

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
