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

/** What became of a tool call. */
export interface RecordedTool {
  readonly started: ToolStartRecord | null;
  readonly finished: ToolEndRecord | null;
}

/** A run as its journal has it, by what is looked for. */
export class RecordedRun {
  readonly file: string;
  readonly header: JournalHeader;
  /** What its guest's thread lived through. */
  readonly events: readonly ReplayEvent[];
  /** How it ended; null: it did not, or was taken up again. */
  readonly end: EndRecord | null;
  readonly attempts: number;
  /** How much of its time was over when it last ended, and when timers of its guest fire that was last parked. */
  readonly parked: Required<Pick<EndRecord, 'spent_ms' | 'sleeps'>>;
  /** Whether an attempt ended because its memory was too much for a shared thread. */
  readonly needsOwnThread: boolean;
  readonly outputBytes: Readonly<Record<StandardStream, number>>;
  readonly #replies = new Map<number, ReplyRecord[]>();
  /** How many of the replies about a call the guest has taken. */
  readonly #taken = new Map<number, number>();
  readonly #answers = new Map<string, ModelResponseRecord>();
  readonly #tools = new Map<string, RecordedTool>();

  constructor({ file, header, records }: Pick<ReadJournal, 'file' | 'header' | 'records'>) {
    this.file = file;
    this.header = header;
    const outputBytes = { stdout: 0, stderr: 0 };
    let end: EndRecord | null = null;
    let attempts = 1;
    let needsOwnThread = false;
    let parked: RecordedRun['parked'] = { spent_ms: 0, sleeps: [] };
    const events: ReplayEvent[] = [];
    for (const record of records) {
      switch (record.t) {
        case 'guest':
          events.push(...this.#play(record.e));
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
          attempts = record.attempt;
          break;
        default:
          this.#index(record);
      }
    }
    this.events = events;
    this.end = end;
    this.attempts = attempts;
    this.parked = parked;
    this.needsOwnThread = needsOwnThread;
    this.outputBytes = outputBytes;
  }

  /** Whether the last word about a call of the guest was said. */
  isAnswered(call: number): boolean {
    return this.lastReply(call) !== null;
  }

  lastReply(call: number): ReplyRecord | null {
    const last = this.#replies.get(call)?.at(-1);
    return last !== undefined && isFinalReply(this.#decode(last)) ? last : null;
  }

  /** How many callbacks of the guest a send had asked for. */
  callbacks(call: number): number {
    return (this.#replies.get(call) ?? []).filter(({ m }) => m[0] === 'tool').length;
  }

  /** All that was said about a call. */
  told(call: number): HostReply[] {
    return (this.#replies.get(call) ?? []).map((record) => this.#decode(record));
  }

  /** What was said about a call and the guest has not heard. */
  unheard(call: number): HostReply[] {
    return this.told(call).slice(this.#taken.get(call) ?? 0);
  }

  answer(call: number, n: number): ModelResponseRecord | null {
    return this.#answers.get(`${call}.${n}`) ?? null;
  }

  tool(ordinal: string): RecordedTool | null {
    return this.#tools.get(ordinal) ?? null;
  }

  #index(record: TimedRecord): void {
    switch (record.t) {
      case 'reply':
        this.#said(record.call).push(record);
        return;
      case 'model.answered':
        this.#answers.set(`${record.call}.${record.n}`, record);
        return;
      case 'tool.started':
        this.#tools.set(record.ordinal, { started: record, finished: null });
        return;
      case 'tool.finished':
        this.#tools.set(record.ordinal, { started: this.tool(record.ordinal)?.started ?? null, finished: record });
        return;
    }
  }

  #said(call: number): ReplyRecord[] {
    const known = this.#replies.get(call);
    if (known !== undefined) return known;
    const none: ReplyRecord[] = [];
    this.#replies.set(call, none);
    return none;
  }

  #play(text: string): ReplayEvent[] {
    return parseEvents(text).map((event) => {
      if (event.kind !== 'r') return { ...event, message: null };
      const call = Number(event.value);
      const index = this.#taken.get(call) ?? 0;
      this.#taken.set(call, index + 1);
      const record = this.#replies.get(call)?.[index];
      if (record !== undefined) return { ...event, message: [0, call, ...this.#decode(record)] as const };
      throw new JournalError(this.file, `journal corrupt: the reply to call ${call} is missing`);
    });
  }

  #decode({ m }: ReplyRecord): HostReply {
    return replyFromJson(m, (ordinal) => this.tool(ordinal)?.finished?.result ?? null);
  }
}

/** The result of a tool call, as it stands in the journal. */
export interface RecordedResult {
  readonly ordinal: string;
  readonly json: string;
}

/** A reply as JSON text. `result`: one that stands in the journal already, and is named instead where it comes again. */
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

/** A message to a model; a result that stands in the journal already is named instead. */
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
