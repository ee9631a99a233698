import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import type { StandardStream } from '../port/guest-spec.ts';
import { parseEvents, type ReplayEvent } from '../port/journal-events.ts';
import { type HostReply, isFinalReply } from '../port/port.ts';
import type {
  EndRecord,
  JournalHeader,
  ModelResponseRecord,
  ReplyRecord,
  TimedRecord,
  ToolEndRecord,
  ToolStartRecord,
} from './journal.ts';
import { JournalError } from './journal-error.ts';
import type { ReadJournal } from './read-journal.ts';

/** Recorded start and end of a tool call. */
export interface RecordedTool {
  readonly started: ToolStartRecord | null;
  readonly finished: ToolEndRecord | null;
}

/** Recorded history of a run, indexed for replay and resume. */
export class RecordedRun {
  readonly file: string;
  readonly header: JournalHeader;
  /** Inputs of the guest thread. */
  readonly events: readonly ReplayEvent[];
  /** Null: the run has no end, or was resumed after it. */
  readonly end: EndRecord | null;
  /** Number of the last attempt. */
  readonly attempt: number;
  /** Used time at the last end, and timers at the last parking. */
  readonly parked: Required<Pick<EndRecord, 'spent_ms' | 'sleeps'>>;
  /** Whether an attempt ended because its memory exceeded the limit of its shared thread. */
  readonly needsOwnThread: boolean;
  readonly outputBytes: Readonly<Record<StandardStream, number>>;
  readonly #replies = new Map<number, ReplyRecord[]>();
  /** Number of replies to a call that the guest has received. */
  readonly #received = new Map<number, number>();
  readonly #modelResponses = new Map<string, ModelResponseRecord>();
  readonly #tools = new Map<string, RecordedTool>();

  constructor({ file, header, records }: Pick<ReadJournal, 'file' | 'header' | 'records'>) {
    this.file = file;
    this.header = header;
    const outputBytes = { stdout: 0, stderr: 0 };
    let end: EndRecord | null = null;
    let attempt = 1;
    let needsOwnThread = false;
    let parked: RecordedRun['parked'] = { spent_ms: 0, sleeps: [] };
    const events: ReplayEvent[] = [];
    for (const record of records) {
      switch (record.t) {
        case 'guest':
          events.push(...this.#parse(record.e));
          break;
        case 'output':
          outputBytes[record.fd] = record.at + Buffer.byteLength(record.b, 'base64');
          break;
        case 'end':
          end = record;
          needsOwnThread ||= record.own_thread === true;
          parked = { spent_ms: record.spent_ms ?? parked.spent_ms, sleeps: record.sleeps ?? parked.sleeps };
          break;
        case 'resumed':
          end = null;
          attempt = record.attempt;
          break;
        default:
          this.#index(record);
      }
    }
    this.events = events;
    this.end = end;
    this.attempt = attempt;
    this.parked = parked;
    this.needsOwnThread = needsOwnThread;
    this.outputBytes = outputBytes;
  }

  /** Whether a call has its final reply. */
  isAnswered(call: number): boolean {
    return this.lastReply(call) !== null;
  }

  lastReply(call: number): ReplyRecord | null {
    const last = this.#replies.get(call)?.at(-1);
    return last !== undefined && isFinalReply(this.#decode(last)) ? last : null;
  }

  /** Number of callbacks that a send requested. */
  callbacks(call: number): number {
    return (this.#replies.get(call) ?? []).filter(({ m }) => m[0] === 'tool').length;
  }

  /** All replies to a call. */
  replies(call: number): HostReply[] {
    return (this.#replies.get(call) ?? []).map((record) => this.#decode(record));
  }

  /** Replies to a call that the guest has not received. */
  undelivered(call: number): HostReply[] {
    return this.replies(call).slice(this.#received.get(call) ?? 0);
  }

  modelResponse(call: number, n: number): ModelResponseRecord | null {
    return this.#modelResponses.get(`${call}.${n}`) ?? null;
  }

  tool(ordinal: string): RecordedTool | null {
    return this.#tools.get(ordinal) ?? null;
  }

  #index(record: TimedRecord): void {
    switch (record.t) {
      case 'reply':
        this.#repliesTo(record.call).push(record);
        return;
      case 'model.answered':
        this.#modelResponses.set(`${record.call}.${record.n}`, record);
        return;
      case 'tool.started':
        this.#tools.set(record.ordinal, { started: record, finished: null });
        return;
      case 'tool.finished':
        this.#tools.set(record.ordinal, { started: this.tool(record.ordinal)?.started ?? null, finished: record });
        return;
    }
  }

  #repliesTo(call: number): ReplyRecord[] {
    const known = this.#replies.get(call);
    if (known !== undefined) return known;
    const none: ReplyRecord[] = [];
    this.#replies.set(call, none);
    return none;
  }

  #parse(text: string): ReplayEvent[] {
    return parseEvents(text).map((event) => {
      if (event.kind !== 'r') return { ...event, message: null };
      const call = Number(event.value);
      const index = this.#received.get(call) ?? 0;
      this.#received.set(call, index + 1);
      const record = this.#replies.get(call)?.[index];
      if (record !== undefined) return { ...event, message: [0, call, ...this.#decode(record)] as const };
      throw new JournalError(this.file, `journal corrupt: the reply to call ${call} is missing`);
    });
  }

  #decode({ m }: ReplyRecord): HostReply {
    return replyFromJson(m, (ordinal) => this.tool(ordinal)?.finished?.result ?? null);
  }
}

/** A recorded tool result. */
export interface RecordedResult {
  readonly ordinal: string;
  readonly json: string;
}

/** A reply as JSON text. `result`: recorded already, so the reply refers to it. */
export function replyToJson(reply: HostReply, result: RecordedResult | null): string {
  let json = '';
  for (const part of reply as readonly unknown[]) {
    json += json === '' ? '[' : ',';
    if (part === null) json += 'null';
    else if (typeof part === 'object' && part instanceof Uint8Array) {
      json += `{"$bytes":"${Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString('base64')}"}`;
    } else if (result !== null && part === result.json) json += `{"$result":${JSON.stringify(result.ordinal)}}`;
    else json += JSON.stringify(part);
  }
  return `${json}]`;
}

export function replyFromJson(parts: readonly JsonValue[], resultOf: (ordinal: string) => string | null): HostReply {
  return parts.map((part) => {
    if (!isJsonObject(part)) return part;
    if (typeof part.$bytes === 'string') return new Uint8Array(Buffer.from(part.$bytes, 'base64'));
    return typeof part.$result === 'string' ? resultOf(part.$result) : part;
  }) as unknown as HostReply;
}

/** A model message in which a recorded result is replaced by a reference. */
export function withResultNamed(message: JsonObject, results: readonly RecordedResult[]): JsonObject {
  if (message.role !== 'tool') return message;
  const known = results.find(({ json }) => json === message.content);
  return known === undefined ? message : { ...message, content: { $result: known.ordinal } };
}

export function withResultInlined(message: JsonObject, resultOf: (ordinal: string) => string | null): JsonObject {
  const { content } = message;
  if (!isJsonObject(content) || typeof content.$result !== 'string') return message;
  return { ...message, content: resultOf(content.$result) };
}
