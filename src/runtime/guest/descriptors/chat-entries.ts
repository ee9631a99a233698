/*
 * Descriptors of chat: `ChatSession` holds what the guest wrote since its last send, `ChatResponse` the body and events of one
 * send, `EventLines` the unread lines of a streamed one. The host owns the history.
 *
 * A session has at most one running send. Data in a response counts as `answerBytes` of the guest until it is read or the
 * descriptor is closed.
 */
import type { CheckedParam } from '../../abi/chat-params.ts';
import type { SessionDelta } from '../../port/port.ts';
import { IN, OUT } from './readiness.ts';
import { type AnswerCount, FdEntry, PendingEntry } from './table.ts';

/** A call of a guest tool by the model, to be run in the guest. */
export interface ToolRequest {
  readonly callback: number;
  readonly fnOffset: number;
  readonly args: string;
  readonly maxOutputBytes: number;
}

export class ChatResponse extends PendingEntry {
  readonly kind = 'ChatResponse';
  readonly session: ChatSession;
  /** Arena for the callbacks of this send, as set when the send began. */
  readonly arena: Arena;
  /** Whether the send returned immediately. Fixed at the send, unlike O_NONBLOCK: it decides where callbacks run. */
  readonly background: boolean;
  readonly toolRequests: ToolRequest[] = [];
  /** Unread events of a streamed send; null: not streamed. */
  readonly events: EventLines | null;
  call = 0;
  /** Callbacks of this send that are running. */
  callbacks = 0;
  /** Bytes of events that were read and not acknowledged to the host. */
  unacknowledgedBytes = 0;
  readonly #count: AnswerCount;

  /** Unread events are counted in `count`. */
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

  /** Takes whole lines. A line longer than the capacity is returned and stays. Empty: no events. */
  takeEvents(capacity: number): Uint8Array {
    const { events } = this;
    if (events === null || events.byteLength === 0) return NO_LINES;
    const lines = events.take(capacity);
    if (lines.byteLength > capacity) return lines;
    this.#count.answerBytes -= lines.byteLength;
    this.unacknowledgedBytes += lines.byteLength;
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

/** Pending writes; {@link ChatSession.begin} converts them to the form of the port. */
interface PendingWrites {
  /** perf: role and content alternate; a pair per message would be two more objects to collect. */
  readonly messages: string[];
  readonly tools: [number, string][];
  readonly toolResults: [string, string][];
  readonly params: CheckedParam[];
}

export class ChatSession extends FdEntry {
  readonly kind = 'ChatSession';
  readonly arena: Arena = { ptr: 0, length: 0 };
  /** Ids of handed-back tool calls without a result. */
  readonly handedBack = new Set<string>();
  /** Id on the port: the descriptor number. */
  id = 0;
  /** Whether the host has the session; its first send creates it there. */
  sent = false;
  /** Sends without a final reply, cancelled ones included. */
  unsettled = 0;
  readonly #onRelease: () => void;
  #pendingWrites: PendingWrites = noWrites();
  #bytes = 0;
  #running: ChatResponse | undefined;

  constructor(onRelease: () => void) {
    super();
    this.#onRelease = onRelease;
  }

  /** Sum of {@link reserve}. */
  get bytes(): number {
    return this.#bytes;
  }

  get busy(): boolean {
    return this.#running !== undefined;
  }

  /** Counts a write; false if the session would exceed `limit`. */
  reserve(bytes: number, limit: number): boolean {
    if (this.#bytes + bytes > limit) return false;
    this.#bytes += bytes;
    return true;
  }

  writeMessage(role: string, content: string): void {
    this.#pendingWrites.messages.push(role, content);
  }

  writeTool(fnOffset: number, definition: string): void {
    this.#pendingWrites.tools.push([fnOffset, definition]);
  }

  writeToolResult(id: string, content: string): void {
    this.handedBack.delete(id);
    this.#pendingWrites.toolResults.push([id, content]);
  }

  writeParam(param: CheckedParam): void {
    this.#pendingWrites.params.push(param);
  }

  begin(response: ChatResponse): SessionDelta {
    this.#running = response;
    this.sent = true;
    this.unsettled += 1;
    const { messages, tools, toolResults, params } = this.#pendingWrites;
    this.#pendingWrites = noWrites();
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

function noWrites(): PendingWrites {
  return { messages: [], tools: [], toolResults: [], params: [] };
}

const LINE_END = 0x0a;
const NOTHING = new Uint8Array();

/** Unread lines of events, as bytes with line ends. */
export class EventLines {
  #bytes: Uint8Array = NOTHING;
  /** Chunks after {@link #bytes}, joined on the next read. */
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
   * Takes as many whole lines as fit. If the first line does not fit, returns it without taking it.
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
