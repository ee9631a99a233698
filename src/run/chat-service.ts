import type { ChatBackend } from '../agent/chat/backend.ts';
import { ChatHistory } from '../agent/chat/history.ts';
import type { ToolSource } from '../agent/chat/injected-tools.ts';
import { type EventSink, everySink, type ModelEvent } from '../agent/chat/model-event.ts';
import { restoreSend, settledSend } from '../agent/chat/settled-send.ts';
import { runSend, type SendObserver, type SendOutcome, STREAM } from '../agent/chat/tool-loop.ts';
import { canonicalJson, type JsonObject } from '../base/json.ts';
import { Listeners } from '../base/listeners.ts';
import { PausableDeadline } from '../base/timing.ts';
import type { RecordedSend } from '../runtime/durable/journal.ts';
import { type HostReply, PortViolation, SEND_WINDOW_BYTES, type SessionDelta } from '../runtime/port/port.ts';

export interface ChatServiceOptions {
  /** `call`: the send that asks. */
  readonly backend: (name: string | undefined, call: number) => Promise<ChatBackend>;
  /** Tools from outside the guest; null: there are none. */
  readonly tools: ToolSource | null;
  readonly observe: (session: string) => SendObserver;
  /** Told of what happens during every send; null: nobody is. */
  readonly onModelEvent: ((event: ModelEvent, session: string) => void) | null;
  readonly reply: (call: number, reply: HostReply) => void;
  /** Told what a send left behind, before its reply; null: nobody wants to know. */
  readonly settled?: ((call: number, send: RecordedSend) => void) | null;
  /** Whether guests may answer callbacks before they are asked: those of a run that goes on do. */
  readonly takesEarlyAnswers?: boolean;
}

/** Answers that may wait for their question. */
const MAX_EARLY_ANSWERS = 1_024;

interface Session {
  readonly history: ChatHistory;
  /** Ends when the last send has: a canceled one still unwinds when the next arrives. */
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
  /** Runs while the send does; null: it has not begun. */
  deadline: PausableDeadline | null;
  readonly session: string;
  /** Null: the guest wants the answer whole. */
  readonly stream: ResponseStream | null;
  done: Promise<void>;
}

/** The chat side of one guest, on the host thread: its conversations and the sends that run. */
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

  /** A send that ended in an earlier attempt of the run: what it left behind is there again. */
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

  /** The time of the session's send stands still until what this gives is called. */
  pause(session: string): () => void {
    const goOn = [...this.#running.values()].flatMap((send) =>
      send.session === session && send.deadline !== null ? [send.deadline.pause()] : [],
    );
    return () => {
      for (const start of goOn) start();
    };
  }

  /** The guest has read so many bytes of events. */
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

  /** Answers when nothing of it is held any more: a canceled send may still unwind. Call 0: nobody waits for that. */
  closeSession(call: number, id: number): void {
    const session = this.#sessions.get(id);
    this.#sessions.delete(id);
    if (call === 0) return;
    (session?.tail ?? Promise.resolve()).then(() => this.#options.reply(call, ['done', null, null, '{}']));
  }

  /** Ends everything that still runs and waits for it. */
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
    const told: EventSink = { emit: (event) => listeners.notify(event), room: () => null };
    return everySink(stream === null ? [told] : [stream, told]);
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
 * The events of a streamed send on their way to the guest's thread, as lines of JSON. What the guest has not read is
 * bounded: beyond the window there is no room, and who makes the events stops.
 */
export class ResponseStream implements EventSink {
  readonly #post: (lines: string) => void;
  /** Of one turn of the event loop; they go together. */
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

  /** The guest has read so much; never more than there was: what it says is not trusted. */
  read(bytes: number): void {
    this.#unreadBytes = Math.max(0, this.#unreadBytes - bytes);
    if (this.#room === null || this.#unreadBytes >= SEND_WINDOW_BYTES) return;
    this.#room.resolve();
    this.#room = null;
  }

  /** Before the last word of the send: nothing may follow that. */
  flush(): void {
    if (this.#lines === '') return;
    const lines = this.#lines;
    this.#lines = '';
    this.#unreadBytes += Buffer.byteLength(lines);
    this.#post(lines);
  }
}
