import { Worker } from 'node:worker_threads';

export interface SchemaRequest {
  /** Identifies the schema; the thread compiles each schema once. */
  readonly key: string;
  readonly schema: string;
  readonly named: boolean;
  readonly subject: string;
  /** JSON; null: compile the schema only. */
  readonly value: string | null;
}

export type SchemaResponse =
  | { readonly kind: 'checked'; readonly problem: string | null; readonly unused: string | null }
  | { readonly kind: 'unusable'; readonly why: string };

interface QueuedRequest {
  readonly request: SchemaRequest;
  readonly timeoutMs: number;
  readonly resolve: (answer: SchemaResponse | 'too_expensive') => void;
}

interface SchemaThreadOptions {
  /** Length of the queue; above it requests fail. */
  readonly maxQueued: number;
  /** An idle thread ends after this time. */
  readonly idleMs: number;
}

const HEAP_MB = 256;
/** The start of the thread does not count against the time of a schema. */
const START_MS = 20_000;

/** Next to this file: TypeScript in a checkout, bundled in the package. */
const threadUrl = new URL(import.meta.url.endsWith('.ts') ? './thread.ts' : './schema-thread.cjs', import.meta.url);

/**
 * Runs expensive schemas on a worker thread, one request at a time. The thread is started on demand and terminated when a
 * request exceeds its time or memory, so a hostile schema costs only its own result.
 */
export class SchemaThread {
  readonly #options: SchemaThreadOptions;
  readonly #queue: QueuedRequest[] = [];
  #worker: Worker | null = null;
  #isReady = false;
  #running: { readonly queued: QueuedRequest; readonly timer: NodeJS.Timeout } | null = null;
  #idle: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(options: SchemaThreadOptions) {
    this.#options = options;
  }

  /** `timeoutMs` does not include the time in the queue. */
  validate(request: SchemaRequest, timeoutMs: number): Promise<SchemaResponse | 'too_expensive'> {
    if (this.#closed || this.#queue.length >= this.#options.maxQueued) return Promise.resolve('too_expensive');
    return new Promise((resolve) => {
      this.#queue.push({ request, timeoutMs, resolve });
      this.#next();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const { resolve } of this.#queue.splice(0)) resolve('too_expensive');
    await this.#end();
  }

  #next(): void {
    if (this.#running !== null) return;
    const queued = this.#queue.shift();
    if (queued === undefined) {
      this.#endWhenIdle();
      return;
    }
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#idle = null;
    const worker = this.#worker ?? this.#start();
    const timeoutMs = this.#isReady ? queued.timeoutMs : START_MS;
    this.#running = { queued, timer: setTimeout(() => this.#abandon(worker), timeoutMs) };
    worker.postMessage(queued.request);
  }

  /** Starts the clock of the first request. */
  #ready(worker: Worker): void {
    this.#isReady = true;
    if (this.#running === null) return;
    const { queued, timer } = this.#running;
    clearTimeout(timer);
    this.#running = { queued, timer: setTimeout(() => this.#abandon(worker), queued.timeoutMs) };
  }

  #start(): Worker {
    const worker = new Worker(threadUrl, {
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
      name: 'spear-schemas',
    });
    worker.unref();
    worker.on('message', (message: SchemaResponse | 'ready') => {
      if (worker !== this.#worker) return;
      if (message === 'ready') this.#ready(worker);
      else this.#finish(message);
    });
    // Out of memory, or a bug of ours.
    worker.on('error', () => this.#abandon(worker));
    this.#worker = worker;
    this.#isReady = false;
    return worker;
  }

  #finish(response: SchemaResponse | 'too_expensive'): void {
    const running = this.#running;
    if (running === null) return;
    clearTimeout(running.timer);
    this.#running = null;
    running.queued.resolve(response);
    this.#next();
  }

  #abandon(worker: Worker): void {
    if (worker !== this.#worker) return;
    this.#worker = null;
    void worker.terminate();
    this.#finish('too_expensive');
  }

  #endWhenIdle(): void {
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
    this.#finish('too_expensive');
    await worker?.terminate();
  }
}
