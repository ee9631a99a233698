import type { JsonObject } from '../base/json.ts';
import type { ChatBackend } from '../chat/backend.ts';
import { ChatHistory } from '../chat/history.ts';
import type { ToolSource } from '../chat/injected-tools.ts';
import { runSend, type SendObserver, type SendOutcome } from '../chat/tool-loop.ts';
import { type HostReply, PortViolation, type SessionDelta } from '../protocol/port.ts';

export interface ChatServiceOptions {
  readonly backend: (name: string | undefined) => Promise<ChatBackend>;
  /** Tools from outside the guest; null: there are none. */
  readonly tools: ToolSource | null;
  readonly observe: (session: string) => SendObserver;
  readonly reply: (call: number, reply: HostReply, transfer?: ArrayBuffer[]) => void;
}

interface Session {
  readonly history: ChatHistory;
  /** Ends when the last send has: a canceled one still unwinds when the next arrives. */
  tail: Promise<void>;
}

interface RunningSend {
  readonly controller: AbortController;
  readonly callbacks: Map<number, (answer: { rc: number; content: string }) => void>;
  done: Promise<void>;
}

/** The chat side of one guest, on the host thread: its conversations and the sends that run. */
export class ChatService {
  readonly #options: ChatServiceOptions;
  readonly #sessions = new Map<number, Session>();
  readonly #running = new Map<number, RunningSend>();
  #nextCallback = 1;
  readonly totals = { sends: 0, iterations: 0, toolCalls: 0, usage: {} as JsonObject };

  constructor(options: ChatServiceOptions) {
    this.#options = options;
  }

  send(call: number, id: number, flags: number, delta: SessionDelta): void {
    if (this.#running.has(call)) throw new PortViolation('a call id was used twice');
    const session = this.#sessions.get(id) ?? { history: new ChatHistory(), tail: Promise.resolve() };
    this.#sessions.set(id, session);
    const send: RunningSend = { controller: new AbortController(), callbacks: new Map(), done: session.tail };
    this.#running.set(call, send);
    send.done = session.tail.then(() => this.#run(call, id, session, send, flags, delta));
    session.tail = send.done;
  }

  cancel(call: number): void {
    this.#running.get(call)?.controller.abort(new DOMException('cancelled by the guest', 'AbortError'));
  }

  toolResult(call: number, callback: number, rc: number, content: string): void {
    const callbacks = this.#running.get(call)?.callbacks;
    callbacks?.get(callback)?.({ rc, content });
    callbacks?.delete(callback);
  }

  /** Answers when nothing of it is held any more: a canceled send may still unwind. */
  closeSession(call: number, id: number): void {
    const session = this.#sessions.get(id);
    this.#sessions.delete(id);
    (session?.tail ?? Promise.resolve()).then(() => this.#options.reply(call, ['done', null, null, '{}']));
  }

  /** Ends everything that still runs and waits for it. */
  async close(): Promise<void> {
    const running = [...this.#running.values()];
    for (const { controller } of running) controller.abort(new DOMException('the guest ended', 'AbortError'));
    await Promise.all(running.map(({ done }) => done)); // those of closed sessions too
    this.#sessions.clear();
  }

  async #run(
    call: number,
    id: number,
    { history }: Session,
    send: RunningSend,
    flags: number,
    delta: SessionDelta,
  ): Promise<void> {
    history.apply(delta);
    const timeoutMs = history.number('timeout_ms');
    const timer = setTimeout(
      () => send.controller.abort(new DOMException(`over ${timeoutMs} ms`, 'TimeoutError')),
      timeoutMs,
    );
    const session = `chat-${id}`;
    const endsAt = performance.now() + timeoutMs;
    const outcome = await runSend(
      history,
      flags,
      {
        backend: this.#options.backend,
        observer: this.#options.observe(session),
        tools: this.#options.tools,
        session,
        timeLeftMs: () => endsAt - performance.now(),
        callGuestTool: (tool, args, maxOutputBytes) =>
          new Promise((resolve) => {
            const callback = this.#nextCallback++;
            send.callbacks.set(callback, resolve);
            this.#options.reply(call, ['tool', callback, tool.fnOffset, args, maxOutputBytes]);
          }),
      },
      send.controller.signal,
    );
    clearTimeout(timer);
    this.#running.delete(call);
    this.#count(outcome);
    const body = outcome.body.buffer;
    this.#options.reply(call, ['response', body, outcome.metrics.toJson(body.byteLength), outcome.pending], [body]);
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
