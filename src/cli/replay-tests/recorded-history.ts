import { canonicalJson, isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import type {
  EndRecord,
  ModelRequestRecord,
  ModelResponseRecord,
  ReplyRecord,
  TimedRecord,
  ToolsRecord,
} from '../../runtime/durable/journal.ts';
import { JournalError } from '../../runtime/durable/journal-error.ts';
import type { ReadJournal } from '../../runtime/durable/read-journal.ts';
import { RecordedRun, withResultInlined } from '../../runtime/durable/recorded-run.ts';
import type { RecordedValues, StandardStream } from '../../runtime/port/guest-spec.ts';
import type { EventKind } from '../../runtime/port/journal-events.ts';
import type { CallKind } from '../../runtime/port/policy-layers.ts';

/** A recorded model request with its complete messages and its response. */
export interface RecordedRequest {
  readonly asked: ModelRequestRecord;
  readonly messages: readonly JsonObject[];
  /** Names of its tools. */
  readonly tools: readonly string[];
  /** MCP tools that its send injected; null: none. */
  readonly injected: Required<Pick<ToolsRecord, 'params' | 'definitions' | 'system'>> | null;
  /** Turns of its send before its first request, for a send that continues a turn that was handed back. */
  readonly turnsBefore: number;
  /** Number of responses received before this request was sent. */
  readonly after: number;
  /** Null: the run ended before the response. */
  answered: ModelResponseRecord | null;
  /** Number of responses before this one, and the gap after the last of them if the request was pending by then. */
  order: number;
  gapMs: number;
}

/** A tool call made by the guest itself. */
export interface RecordedCall {
  readonly kind: CallKind;
  readonly server: string;
  readonly tool: string;
  readonly args: string;
  readonly ordinal: string;
  isTaken: boolean;
}

const NEAR_MS = 60_000;
/** Long enough for a guest to process the responses before. */
const MAX_GAP_MS = 100;

type Question = readonly (string | null)[];

/** Content of a journal, indexed by what a guest may request. */
export class RecordedHistory {
  readonly file: string;
  readonly run: RecordedRun;
  readonly calls: RecordedCall[] = [];
  readonly input: Buffer;
  readonly output: Readonly<Record<StandardStream, Buffer>>;
  readonly #requests = new Map<string, RecordedRequest[]>();
  readonly #answers = new Map<string, ReplyRecord['m'][]>();
  readonly #lastMs: number;
  #answered = 0;
  #answeredMs = 0;

  /** @throws JournalError if the journal has no model requests */
  constructor(read: ReadJournal) {
    this.file = read.file;
    this.run = new RecordedRun(read);
    this.#lastMs = read.records.at(-1)?.ms ?? 0;
    const input: Buffer[] = [];
    const output: Record<StandardStream, Buffer[]> = { stdout: [], stderr: [] };
    const sets = new Map<number, ToolsRecord>();
    const injected = new Map<string, ToolsRecord>();
    const sends = new Map<number, SendOfSession>();
    const openTurns = new Map<string, number>();
    for (const record of read.records) {
      switch (record.t) {
        case 'tools':
          if (record.definitions !== undefined) sets.set(record.set, record);
          injected.set(record.session, { ...sets.get(record.set), ...record });
          break;
        case 'model.asked':
          this.#ask(record, injected, sends, openTurns);
          break;
        case 'model.answered':
          this.#answer(record, sends.get(record.call)?.session);
          break;
        case 'reply':
          this.#reply(record, input);
          if (record.send !== undefined) {
            openTurns.set(sends.get(record.call)?.session ?? '', record.send.turn?.iterations ?? 0);
          }
          break;
        case 'output':
          output[record.fd].push(Buffer.from(record.b, 'base64'));
          break;
        default:
          this.#call(record);
      }
    }
    this.input = Buffer.concat(input);
    this.output = { stdout: Buffer.concat(output.stdout), stderr: Buffer.concat(output.stderr) };
  }

  /** Recorded values of clocks and entropy. */
  get chance(): RecordedValues {
    const { header, events } = this.run;
    // Both clocks record their values in one form; only wall clock values are near the time of the run.
    const isWall = (value: string) => {
      const sinceStart = Number(value) - header.started;
      return sinceStart >= -NEAR_MS && sinceStart <= this.#lastMs + NEAR_MS;
    };
    const values = (kind: EventKind) => events.filter((event) => event.kind === kind).map(({ value }) => value);
    const clocks = values('c');
    return {
      wallMs: clocks.filter(isWall).map(Number),
      monotonicNs: clocks.filter((value) => !isWall(value)).map(BigInt),
      random: Buffer.concat(values('d').map((value) => Buffer.from(value, 'base64url'))),
    };
  }

  get end(): EndRecord | null {
    return this.run.end;
  }

  /** Requests of a session, in order. */
  requests(session: string): readonly RecordedRequest[] {
    return this.#requests.get(session) ?? [];
  }

  get allRequests(): readonly RecordedRequest[] {
    return [...this.#requests.values()].flat();
  }

  /** Recorded responses to a registry query, one per query. */
  answers(question: Question): readonly ReplyRecord['m'][] {
    return this.#answers.get(JSON.stringify(question)) ?? [];
  }

  result(ordinal: string): string | null {
    return this.run.tool(ordinal)?.finished?.result ?? null;
  }

  #ask(
    asked: ModelRequestRecord,
    injected: ReadonlyMap<string, ToolsRecord>,
    sends: Map<number, SendOfSession>,
    openTurns: ReadonlyMap<string, number>,
  ): void {
    const { session, kept, said, call } = asked;
    if (session === undefined || kept === undefined || said === undefined) {
      throw new JournalError(
        this.file,
        'the journal has no model requests: it was written by an older version of Spear',
      );
    }
    const requests = this.#requests.get(session) ?? [];
    this.#requests.set(session, requests);
    const send = sends.get(call) ?? { session, tools: [], turnsBefore: openTurns.get(session) ?? 0 };
    sends.set(call, { ...send, tools: asked.tools ?? send.tools });
    const before = requests.at(-1);
    // A resumed run repeats a request that had no response.
    if (before?.asked.call === call && before.asked.n === asked.n) requests.pop();
    const { params = [], definitions = [], system = null } = injected.get(session) ?? {};
    requests.push({
      asked,
      messages: [...(before?.messages ?? []).slice(0, kept), ...said.map((message) => this.#whole(message))],
      tools: asked.tools ?? send.tools,
      injected: injected.has(session) ? { params, definitions, system } : null,
      turnsBefore: send.turnsBefore,
      after: this.#answered,
      answered: null,
      order: 0,
      gapMs: 0,
    });
  }

  #whole(message: JsonObject): JsonObject {
    return withResultInlined(message, (ordinal) => this.result(ordinal));
  }

  #answer(answered: ModelResponseRecord & { readonly ms: number }, session: string | undefined): void {
    const { call, n, ms } = answered;
    const request = this.requests(session ?? '').find(({ asked }) => asked.call === call && asked.n === n);
    if (request === undefined) return;
    request.answered = answered;
    request.order = this.#answered;
    // The guest can distinguish responses to concurrent requests only by the time between them.
    if (request.after < this.#answered) request.gapMs = Math.min(Math.max(0, ms - this.#answeredMs), MAX_GAP_MS);
    this.#answered += 1;
    this.#answeredMs = ms;
  }

  #reply({ m, q }: ReplyRecord, input: Buffer[]): void {
    const [kind, bytes] = m;
    if (kind === 'stdin' && isJsonObject(bytes) && typeof bytes.$bytes === 'string') {
      input.push(Buffer.from(bytes.$bytes, 'base64'));
    }
    if (q === undefined) return;
    const key = JSON.stringify(q);
    this.#answers.set(key, [...(this.#answers.get(key) ?? []), m]);
  }

  /** Records a call of the guest. Calls of the model have an ordinal with a turn. */
  #call(record: TimedRecord): void {
    const wanted = record.t === 'tool.started' ? record : record.t === 'tool.finished' ? record.refused : undefined;
    if (wanted === undefined || !('ordinal' in record) || record.ordinal.includes('.')) return;
    if (this.calls.some(({ ordinal }) => ordinal === record.ordinal)) return; // repeated by a resumed run
    const { kind = 'tool', server, tool, args } = wanted;
    this.calls.push({ kind, server, tool, args: canonical(args), ordinal: record.ordinal, isTaken: false });
  }
}

interface SendOfSession {
  readonly session: string;
  readonly tools: readonly string[];
  readonly turnsBefore: number;
}

/** Arguments as canonical JSON; text that is not JSON stays as it is. */
export function canonical(args: string): string {
  const parsed: JsonValue | undefined = args.trim() === '' ? {} : parseJson(args);
  return parsed === undefined ? args : canonicalJson(parsed);
}
