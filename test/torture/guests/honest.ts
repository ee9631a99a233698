import type { ChatBackend } from '../../../src/agent/chat/backend.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import { type GuestThreads, type RunResult, runGuest } from '../../../src/index.ts';
import { BIG, call, drop, forever, guestModule, LENGTH, number, say, session, setLength } from './guest-module.ts';

const ANSWER_ROOM = 16_384;

/** Asks, reads the answer, and asks again with all of it as its question: who gets it wrong is found out at once. */
const asking = () =>
  guestModule({
    run: `(local.set $i ${number(1)}) ${forever(
      session,
      say(`${number(BIG)} (local.get $i)`),
      `(local.set $r ${call('cchat_send', '(local.get $s)', number(0))})`,
      setLength(ANSWER_ROOM),
      `(local.set $i ${call('cchat_recv', '(local.get $r)', number(BIG), number(LENGTH))})`,
      `(if (i32.lt_s (local.get $i) ${number(1)}) (then unreachable))`,
      drop(call('cchat_close', '(local.get $r)')),
      drop(call('cchat_close', '(local.get $s)')),
    )}`,
  });

/** A guest that means no harm, and the model it talks to: how long the guest needs from one answer to its next question. */
export class HonestGuest implements ChatBackend {
  readonly name = 'honest';
  readonly model = 'honest';
  /** Questions that were not the last answer. */
  wrong = 0;
  asked = 0;
  #latencies: number[] = [];
  #answeredAt = 0;
  #answer = '';
  #told: () => unknown = () => {};
  readonly #stop = new AbortController();
  #run: Promise<RunResult> | undefined;

  /** `threads`: that it shares with others. @default one of its own */
  async start(threads: GuestThreads | null = null): Promise<void> {
    this.#run = runGuest({ wasm: asking(), backend: this, output: () => {}, signal: this.#stop.signal, threads });
  }

  /** Resolves when it has asked so often; rejects if it ends before. */
  async answered(times: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#told = () => this.asked >= times && resolve();
    this.#run?.then(({ message }) => reject(new Error(`the honest guest ended: ${message}`)), reject);
    await promise;
    this.#told = () => {};
  }

  async complete({ messages }: { readonly messages: readonly JsonObject[] }): Promise<JsonObject> {
    const now = performance.now();
    if (this.asked > 0) {
      this.#latencies.push(now - this.#answeredAt);
      if (!String(messages[0]?.content).includes(this.#answer)) this.wrong++;
    }
    this.asked++;
    this.#told();
    this.#answer = `answer ${this.asked} of ${Math.round(now)}`;
    this.#answeredAt = performance.now();
    return { choices: [{ index: 0, message: { role: 'assistant', content: this.#answer }, finish_reason: 'stop' }] };
  }

  /** What was measured since the last time; one that is still under way counts with what it has taken so far. */
  latencies(): number[] {
    const now = performance.now();
    const measured = [...this.#latencies, ...(this.asked > 0 ? [now - this.#answeredAt] : [])];
    this.#latencies = [];
    return measured;
  }

  async end(): Promise<RunResult | undefined> {
    this.#stop.abort();
    return this.#run;
  }

  async close(): Promise<void> {}
}
