import type { CheckedParam } from '../../abi/chat-params.ts';
import type { SessionDelta } from '../../port/port.ts';
import { IN, OUT } from './readiness.ts';
import { type AnswerCount, FdEntry, PendingEntry } from './table.ts';

/** A call of a guest tool that the model asked for and that waits to be run in the guest. */
export interface ToolRequest {
  readonly callback: number;
  readonly fnOffset: number;
  readonly args: string;
  readonly maxOutputBytes: number;
}

export class ChatResponse extends PendingEntry {
  readonly kind = 'ChatResponse';
  readonly session: ChatSession;
  /** Guest memory for the callbacks of this send, as it was set when the send began. */
  readonly arena: Arena;
  /** Whether the send returned at once. O_NONBLOCK may change later, who runs the callbacks may not. */
  readonly background: boolean;
  readonly toolRequests: ToolRequest[] = [];
  /** What can be read while the answer comes; null: the send is not streamed. */
  readonly events: EventLines | null;
  call = 0;
  /** Callbacks of this send that are being run. */
  callbacks = 0;
  /** Bytes of events that were read and of which the host has not been told. */
  readUntold = 0;
  readonly #count: AnswerCount;

  /** `count` has the events that were not read. */
  constructor(session: ChatSession, streamed: boolean, count: AnswerCount, onCancel: (response: ChatResponse) => void) {
    super(() => {
      session.settled(this);
      this.#dropEvents();
      onCancel(this);
    });
    this.session = session;
    this.arena = { ...session.arena };
    this.background = streamed || session.nonblocking;
    this.nonblocking = session.nonblocking;
    this.events = streamed ? new EventLines() : null;
    this.#count = count;
  }

  addEvents(lines: Uint8Array): void {
    this.events?.push(lines);
    this.#count.answerBytes += lines.byteLength;
  }

  /** Whole lines; one that is longer than the capacity stays. Empty: there is none. */
  takeEvents(capacity: number): Uint8Array {
    const { events } = this;
    if (events === null || events.byteLength === 0) return NO_LINES;
    const lines = events.take(capacity);
    if (lines.byteLength > capacity) return lines;
    this.#count.answerBytes -= lines.byteLength;
    this.readUntold += lines.byteLength;
    return lines;
  }

  override readiness(): number {
    return this.pending && this.events !== null && this.events.byteLength > 0 ? IN : super.readiness();
  }

  override release(): void {
    super.release();
    this.#dropEvents();
  }

  #dropEvents(): void {
    if (this.events === null) return;
    this.#count.answerBytes -= this.events.byteLength;
    this.events.clear();
  }
}

const NO_LINES = new Uint8Array();

export interface Arena {
  ptr: number;
  length: number;
}

/** As it is cheapest to write; {@link ChatSession.begin} makes of it what the port takes. */
interface Writing {
  /** Role and content in turn: a pair for each would be two more objects for the garbage collector to move. */
  readonly messages: string[];
  readonly tools: [number, string][];
  readonly toolResults: [string, string][];
  readonly params: CheckedParam[];
}

/** The guest's end of a conversation: what was written since the last send. The history is the host's. */
export class ChatSession extends FdEntry {
  readonly kind = 'ChatSession';
  readonly arena: Arena = { ptr: 0, length: 0 };
  /** Ids of handed-back tool calls that wait for an answer. */
  readonly handedBack = new Set<string>();
  /** Its name on the port: the descriptor. */
  id = 0;
  /** Whether the host knows of it: a session is made there by its first send. */
  sent = false;
  /** Sends whose last word from the host has not come, canceled ones too. */
  unsettled = 0;
  readonly #onRelease: () => void;
  #writing: Writing = emptyWriting();
  #bytes = 0;
  #running: ChatResponse | undefined;

  constructor(onRelease: () => void) {
    super();
    this.#onRelease = onRelease;
  }

  /** Counted by {@link reserve}. */
  get bytes(): number {
    return this.#bytes;
  }

  get busy(): boolean {
    return this.#running !== undefined;
  }

  /** Counts what a write adds; false, and nothing counted, if the session would hold more than `limit`. */
  reserve(bytes: number, limit: number): boolean {
    if (this.#bytes + bytes > limit) return false;
    this.#bytes += bytes;
    return true;
  }

  writeMessage(role: string, content: string): void {
    this.#writing.messages.push(role, content);
  }

  writeTool(fnOffset: number, definition: string): void {
    this.#writing.tools.push([fnOffset, definition]);
  }

  writeToolResult(id: string, content: string): void {
    this.handedBack.delete(id);
    this.#writing.toolResults.push([id, content]);
  }

  writeParam(param: CheckedParam): void {
    this.#writing.params.push(param);
  }

  begin(response: ChatResponse): SessionDelta {
    this.#running = response;
    this.sent = true;
    this.unsettled += 1;
    const { messages, tools, toolResults, params } = this.#writing;
    this.#writing = emptyWriting();
    return { messages: inPairs(messages), tools, toolResults, params: params.map(({ key, value }) => [key, value]) };
  }

  hostSettled(): void {
    this.unsettled -= 1;
  }

  settled(response: ChatResponse): void {
    if (this.#running === response) this.#running = undefined;
  }

  readiness(): number {
    return this.busy ? 0 : OUT;
  }

  release(): void {
    this.#running?.cancel();
    this.#onRelease();
  }
}

function inPairs(texts: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let at = 0; at < texts.length; at += 2) pairs.push([texts[at] as string, texts[at + 1] as string]);
  return pairs;
}

function emptyWriting(): Writing {
  return { messages: [], tools: [], toolResults: [], params: [] };
}

const LINE_END = 0x0a;
const NOTHING = new Uint8Array();

/** Lines that came from the host and wait to be read: bytes, each line with its end. */
export class EventLines {
  #bytes: Uint8Array = NOTHING;
  /** What came after {@link #bytes}; joined to it when somebody reads. */
  #more: Uint8Array[] = [];
  #length = 0;

  get byteLength(): number {
    return this.#length;
  }

  push(lines: Uint8Array): void {
    this.#more.push(lines);
    this.#length += lines.byteLength;
  }

  /**
   * As many whole lines as fit into so many bytes, and they are taken out. If not even the first one fits it is that
   * line, and it stays.
   */
  take(capacity: number): Uint8Array {
    if (this.#more.length > 0) this.#join();
    const lines = this.#bytes;
    const end = lines.byteLength <= capacity ? lines.byteLength : this.#lastEndWithin(capacity);
    if (end === 0) return lines.subarray(0, lines.indexOf(LINE_END) + 1);
    this.#bytes = lines.subarray(end);
    this.#length -= end;
    return lines.subarray(0, end);
  }

  clear(): void {
    this.#bytes = NOTHING;
    this.#more = [];
    this.#length = 0;
  }

  #lastEndWithin(capacity: number): number {
    return capacity === 0 ? 0 : this.#bytes.lastIndexOf(LINE_END, capacity - 1) + 1;
  }

  #join(): void {
    const [first] = this.#more;
    const alone = this.#more.length === 1 && this.#bytes.byteLength === 0;
    this.#bytes = alone && first ? first : Buffer.concat([this.#bytes, ...this.#more]);
    this.#more = [];
  }
}
