import type { ChatBackend } from '../agent/chat/backend.ts';
import { ChatHistory } from '../agent/chat/history.ts';
import type { ToolSource } from '../agent/chat/injected-tools.ts';
import { type EventSink, everySink, type ModelEvent } from '../agent/chat/model-events.ts';
import { restoreSend, settledSend } from '../agent/chat/send-metrics.ts';
import { runSend, type SendObserver, type SendOutcome, STREAM } from '../agent/chat/tool-loop.ts';
import { canonicalJson, type JsonObject } from '../base/json.ts';
import { Listeners } from '../base/listeners.ts';
import { PausableDeadline } from '../base/timing.ts';
import type { RecordedSend } from '../runtime/durable/journal.ts';
import { type HostReply, PortViolation, SEND_WINDOW_BYTES, type SessionDelta } from '../runtime/port/port.ts';

export interface ChatServiceOptions {
  /** `call`: id of the send. */
  readonly backend: (name: string | undefined, call: number) => Promise<ChatBackend>;
  /** Tools from outside the guest; null: none. */
  readonly tools: ToolSource | null;
  readonly observe: (session: string) => SendObserver;
  /** Receives live events of every send; null: none. */
  readonly onModelEvent: ((event: ModelEvent, session: string) => void) | null;
  readonly reply: (call: number, reply: HostReply) => void;
  /** Receives the result of a send for the journal, before its reply; null: no journal. */
  readonly settled?: ((call: number, send: RecordedSend) => void) | null;
  /** Whether results of callbacks may arrive before their requests, as in a resumed run. */
  readonly takesEarlyAnswers?: boolean;
}

/** Maximum of buffered early results. */
const MAX_EARLY_ANSWERS = 1_024;

interface Session {
  readonly history: ChatHistory;
  /** Resolves when the last send has ended: a cancelled send may still unwind when the next one arrives. */
  tail: Promise<void>;
}

const sessionName = (id: number) => `chat-${id}`;

interface ToolAnswer {
  readonly rc: number;
  readonly content: string;
}

interface RunningSend {
  readonly controller: AbortController;
  readonly callbacks: Map<number, (answer: ToolAnswer) => void>;
  readonly early: Map<number, ToolAnswer>;
  nextCallback: number;
  /** Null: the send has not started. */
  deadline: PausableDeadline | null;
  readonly session: string;
  /** Null: the guest did not request a stream. */
  readonly stream: ResponseStream | null;
  done: Promise<void>;
}

/**
 * Chat sessions of one guest, on the host thread. Sends of a session run one after the other; sessions are independent.
 * A send has a deadline (`timeout_ms`) that pauses while an approver is asked. Cancelling a send aborts its signal; the
 * next send of the session starts when it has unwound. Stream events are bounded by the guest's read window.
 */
export class ChatService {
  readonly #options: ChatServiceOptions;
  readonly #sessions = new Map<number, Session>();
  readonly #running = new Map<number, RunningSend>();
  readonly totals = { sends: 0, iterations: 0, toolCalls: 0, usage: {} as JsonObject };

  constructor(options: ChatServiceOptions) {
    this.#options = options;
  }

  send(call: number, id: number, flags: number, delta: SessionDelta): void {
    if (this.#running.has(call)) throw new PortViolation('duplicate call id');
    const session = this.#session(id);
    const streams = (flags & STREAM) !== 0;
    const send: RunningSend = {
      controller: new AbortController(),
      callbacks: new Map(),
      early: new Map(),
      nextCallback: 1,
      deadline: null,
      session: sessionName(id),
      stream: streams ? new ResponseStream((lines) => this.#options.reply(call, ['events', lines])) : null,
      done: session.tail,
    };
    this.#running.set(call, send);
    send.done = session.tail.then(() => this.#run(call, session, send, flags, delta));
    session.tail = send.done;
  }

  /** Restores the history of a send that ended in an earlier attempt of the run. */
  restore(id: number, delta: SessionDelta, send: RecordedSend): void {
    const session = this.#session(id);
    session.tail = session.tail.then(() => restoreSend(session.history, delta, send));
  }

  #session(id: number): Session {
    const session = this.#sessions.get(id) ?? { history: new ChatHistory(), tail: Promise.resolve() };
    this.#sessions.set(id, session);
    return session;
  }

  cancel(call: number): void {
    this.#running.get(call)?.controller.abort(new DOMException('cancelled by the guest', 'AbortError'));
  }

  /** Pauses the deadline of the session's send. Returns a function that resumes it. */
  pause(session: string): () => void {
    const resumes = [...this.#running.values()].flatMap((send) =>
      send.session === session && send.deadline !== null ? [send.deadline.pause()] : [],
    );
    return () => {
      for (const resume of resumes) resume();
    };
  }

  /** The guest has read this many bytes of events. */
  read(call: number, bytes: number): void {
    this.#running.get(call)?.stream?.read(bytes);
  }

  toolResult(call: number, callback: number, rc: number, content: string): void {
    const send = this.#running.get(call);
    if (send === undefined) return;
    const resolve = send.callbacks.get(callback);
    send.callbacks.delete(callback);
    if (resolve !== undefined) resolve({ rc, content });
    else if (this.#options.takesEarlyAnswers && send.early.size < MAX_EARLY_ANSWERS) {
      send.early.set(callback, { rc, content });
    }
  }

  /** Replies when the session is released, after cancelled sends have unwound. Call 0: no reply. */
  closeSession(call: number, id: number): void {
    const session = this.#sessions.get(id);
    this.#sessions.delete(id);
    if (call === 0) return;
    (session?.tail ?? Promise.resolve()).then(() => this.#options.reply(call, ['done', null, null, '{}']));
  }

  /** Aborts all sends and waits for them. */
  async close(): Promise<void> {
    const running = [...this.#running.values()];
    for (const { controller } of running) controller.abort(new DOMException('the guest ended', 'AbortError'));
    await Promise.all(running.map(({ done }) => done)); // those of closed sessions too
    this.#sessions.clear();
  }

  async #run(call: number, { history }: Session, send: RunningSend, flags: number, delta: SessionDelta): Promise<void> {
    history.apply(delta);
    const before = history.messages.length;
    const timeoutMs = history.number('timeout_ms');
    const deadline = new PausableDeadline(timeoutMs, () =>
      send.controller.abort(new DOMException(`over ${timeoutMs} ms`, 'TimeoutError')),
    );
    send.deadline = deadline;
    const { session } = send;
    const outcome = await runSend(
      history,
      flags,
      {
        backend: (name) => this.#options.backend(name, call),
        observer: this.#options.observe(session),
        events: this.#sinks(send, session),
        tools: this.#options.tools,
        session,
        ordinal: String(call),
        timeLeftMs: () => deadline.leftMs,
        callGuestTool: (tool, args, maxOutputBytes) =>
          new Promise((resolve) => {
            const callback = send.nextCallback++;
            const early = send.early.get(callback);
            if (early === undefined) send.callbacks.set(callback, resolve);
            else resolve(early);
            this.#options.reply(call, ['tool', callback, tool.fnOffset, args, maxOutputBytes]);
          }),
      },
      send.controller.signal,
    );
    deadline.clear();
    this.#running.delete(call);
    send.stream?.flush();
    this.#count(outcome);
    this.#options.settled?.(call, settledSend(history, before));
    const { body, metrics, pending } = outcome;
    this.#options.reply(call, ['response', body, metrics.toJson(Buffer.byteLength(body)), pending]);
  }

  #sinks({ stream }: RunningSend, session: string): EventSink | null {
    const { onModelEvent } = this.#options;
    if (onModelEvent === null) return stream;
    const listeners = new Listeners<ModelEvent>();
    listeners.add((event) => onModelEvent(event, session));
    const live: EventSink = { emit: (event) => listeners.notify(event), room: () => null };
    return everySink(stream === null ? [live] : [stream, live]);
  }

  #count({ metrics }: SendOutcome): void {
    const { iterations, toolCalls } = metrics.own;
    this.totals.sends++;
    this.totals.iterations += iterations;
    this.totals.toolCalls += toolCalls;
    for (const [key, value] of Object.entries(metrics.usage)) {
      if (typeof value === 'number') this.totals.usage[key] = Number(this.totals.usage[key] ?? 0) + value;
    }
  }
}

/**
 * Events of a streamed send for the guest thread, as lines of JSON. Unread bytes are bounded by the window: `room` makes
 * the producer wait.
 */
export class ResponseStream implements EventSink {
  readonly #post: (lines: string) => void;
  /** Lines of the current microtask turn, sent together. */
  #lines = '';
  #unreadBytes = 0;
  #room: PromiseWithResolvers<void> | null = null;

  constructor(post: (lines: string) => void) {
    this.#post = post;
  }

  emit(event: ModelEvent): void {
    if (this.#lines === '') queueMicrotask(() => this.flush());
    this.#lines += `${canonicalJson({ ...event })}\n`;
  }

  room(): Promise<void> | null {
    if (this.#unreadBytes + this.#lines.length < SEND_WINDOW_BYTES) return null;
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  /** Credits bytes that the guest has read. The number is untrusted, so it is bounded. */
  read(bytes: number): void {
    this.#unreadBytes = Math.max(0, this.#unreadBytes - bytes);
    if (this.#room === null || this.#unreadBytes >= SEND_WINDOW_BYTES) return;
    this.#room.resolve();
    this.#room = null;
  }

  /** Must be called before the response of the send, which is the last message. */
  flush(): void {
    if (this.#lines === '') return;
    const lines = this.#lines;
    this.#lines = '';
    this.#unreadBytes += Buffer.byteLength(lines);
    this.#post(lines);
  }
}
