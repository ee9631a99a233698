import { Worker } from 'node:worker_threads';

export interface SchemaQuestion {
  /** The same for the same schema; the thread compiles each once. */
  readonly key: string;
  readonly schema: string;
  readonly named: boolean;
  readonly subject: string;
  /** JSON; null: only compile it. */
  readonly value: string | null;
}

export type SchemaAnswer =
  | { readonly kind: 'checked'; readonly problem: string | null; readonly unused: string | null }
  | { readonly kind: 'unusable'; readonly why: string };

interface Waiting {
  readonly question: SchemaQuestion;
  readonly timeoutMs: number;
  readonly resolve: (answer: SchemaAnswer | 'too_dear') => void;
}

export interface SchemaThreadOptions {
  /** Questions that wait; one more is not asked at all. */
  readonly maxWaiting: number;
  /** An idle thread ends after this time. */
  readonly idleMs: number;
}

const HEAP_MB = 256;
/** For a thread to be there at all: its start says nothing about the schema that waits for it. */
const START_MS = 20_000;

/** Next to this file: TypeScript in a checkout, JavaScript in the package. */
const threadUrl = new URL(import.meta.url.endsWith('.ts') ? './thread.ts' : './schema-thread.cjs', import.meta.url);

/**
 * A thread that answers one question after the other, started when there is one and ended when it takes too long:
 * what a hostile schema does there costs its own answer and nothing else.
 */
export class SchemaThread {
  readonly #options: SchemaThreadOptions;
  readonly #waiting: Waiting[] = [];
  #worker: Worker | null = null;
  #isReady = false;
  #asked: { readonly waiting: Waiting; readonly timer: NodeJS.Timeout } | null = null;
  #idle: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(options: SchemaThreadOptions) {
    this.#options = options;
  }

  /** `timeoutMs` is for this question alone, not for those before it. */
  ask(question: SchemaQuestion, timeoutMs: number): Promise<SchemaAnswer | 'too_dear'> {
    if (this.#closed || this.#waiting.length >= this.#options.maxWaiting) return Promise.resolve('too_dear');
    return new Promise((resolve) => {
      this.#waiting.push({ question, timeoutMs, resolve });
      this.#next();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const { resolve } of this.#waiting.splice(0)) resolve('too_dear');
    await this.#end();
  }

  #next(): void {
    if (this.#asked !== null) return;
    const waiting = this.#waiting.shift();
    if (waiting === undefined) {
      this.#restUntilNeeded();
      return;
    }
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#idle = null;
    const worker = this.#worker ?? this.#start();
    const timeoutMs = this.#isReady ? waiting.timeoutMs : START_MS;
    this.#asked = { waiting, timer: setTimeout(() => this.#giveUp(worker), timeoutMs) };
    worker.postMessage(waiting.question);
  }

  /** The clock of the question that the thread was started for begins now. */
  #ready(worker: Worker): void {
    this.#isReady = true;
    if (this.#asked === null) return;
    const { waiting, timer } = this.#asked;
    clearTimeout(timer);
    this.#asked = { waiting, timer: setTimeout(() => this.#giveUp(worker), waiting.timeoutMs) };
  }

  #start(): Worker {
    const worker = new Worker(threadUrl, {
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
      name: 'spear-schemas',
    });
    worker.unref();
    worker.on('message', (message: SchemaAnswer | 'ready') => {
      if (worker !== this.#worker) return;
      if (message === 'ready') this.#ready(worker);
      else this.#answered(message);
    });
    // Out of memory, or a mistake of ours: either way there is no answer.
    worker.on('error', () => this.#giveUp(worker));
    this.#worker = worker;
    this.#isReady = false;
    return worker;
  }

  #answered(answer: SchemaAnswer | 'too_dear'): void {
    const asked = this.#asked;
    if (asked === null) return;
    clearTimeout(asked.timer);
    this.#asked = null;
    asked.waiting.resolve(answer);
    this.#next();
  }

  #giveUp(worker: Worker): void {
    if (worker !== this.#worker) return;
    this.#worker = null;
    void worker.terminate();
    this.#answered('too_dear');
  }

  #restUntilNeeded(): void {
    this.#idle ??= setTimeout(() => {
      this.#idle = null;
      void this.#end();
    }, this.#options.idleMs).unref();
  }

  async #end(): Promise<void> {
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#idle = null;
    const worker = this.#worker;
    this.#worker = null;
    this.#answered('too_dear');
    await worker?.terminate();
  }
}
