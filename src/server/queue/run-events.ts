import { Listeners } from '../../base/listeners.ts';

/** Live event of a run. */
export interface RunEvent {
  /** Increases over all activations of the run. */
  readonly id: number;
  readonly event: 'output' | 'log' | 'model' | 'tool' | 'status';
  readonly data: string;
}

/** Size of the id range of one activation (start or resume): the ids of the next one are higher even if events were lost. */
const IDS_PER_ACTIVATION = 1_000_000_000;

export const activationOf = ({ id }: RunEvent): number => Math.floor(id / IDS_PER_ACTIVATION);
/** Retained per run for readers that connect late or reconnect. */
const MAX_RETAINED_CHARS = 256 * 1024;
/** Idle runs (ended, parked or queued) whose events are retained. */
const MAX_IDLE = 128;

/** `gap`: events were lost. `gone`: the events were evicted, and the reader must follow the run again. */
export type RunUpdate = RunEvent | 'gap' | 'end' | 'gone';

/** Events of one run over all its attempts; the latest are retained. */
export class RunEvents {
  readonly #listeners = new Listeners<RunUpdate>();
  #retained: RunEvent[] = [];
  #chars = 0;
  #first: number;
  #last: number;
  #isOver = false;
  #hasEnded = false;

  /** `first`: lowest possible id. */
  constructor(first = 1) {
    this.#first = first;
    this.#last = first - 1;
  }

  /** Id of the last event. */
  get last(): number {
    return this.#last;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** No more events follow: the run has ended, or its events were evicted. */
  get isOver(): boolean {
    return this.#isOver;
  }

  add(made: RunEvent): void {
    this.#last = made.id;
    this.#retained.push(made);
    this.#chars += made.data.length;
    while (this.#chars > MAX_RETAINED_CHARS && this.#retained.length > 1) {
      const gone = this.#retained.shift();
      this.#chars -= gone?.data.length ?? 0;
      this.#first = (gone?.id ?? 0) + 1;
    }
    this.#listeners.notify(made);
  }

  /** Events before the next one were lost. */
  gap(): void {
    this.#listeners.notify('gap');
  }

  end(): void {
    this.#hasEnded = true;
    this.#isOver = true;
    this.#listeners.notify('end');
  }

  drop(): void {
    this.#isOver = true;
    this.#listeners.notify('gone');
  }

  /** Retained events after `last`. `isGap`: some in between were evicted. */
  since(last: number | null): { readonly events: readonly RunEvent[]; readonly isGap: boolean } {
    const from = last ?? this.#first - 1;
    return { events: this.#retained.filter(({ id }) => id > from), isGap: from + 1 < this.#first };
  }

  listen(listener: (update: RunUpdate) => void): () => void {
    return this.#listeners.add(listener);
  }
}

export interface RunEventSource {
  /** Events after `last`; all retained ones if it is null. Null: the run has no events here. `close` ends the subscription. */
  follow(
    namespace: string,
    run: string,
    last: number | null,
  ): Promise<{ readonly events: RunEvents; close(): void } | null>;
}

/** Emits events of one attempt. After the next attempt has started it emits nothing. */
export interface AttemptEvents {
  emit(event: RunEvent['event'], data: unknown): void;
  /** The run has ended. */
  end(): void;
  /** The run is idle: its events may be evicted like those of ended runs. */
  idle(): void;
}

/** Events of the runs of this process: active ones, and the idle ones that were active last. */
export class AllRunEvents implements RunEventSource {
  readonly #runs = new Map<string, RunEvents>();
  /** The current attempt of each run. */
  readonly #attempts = new Map<string, AttemptEvents>();
  readonly #idle = new Set<string>();

  /** `activation`: number of starts and resumes of the run. `onEvent` receives the events of this attempt. */
  begin(run: string, activation: number, onEvent: (event: RunEvent) => void = () => {}): AttemptEvents {
    const known = this.#runs.get(run);
    let next = Math.max(activation * IDS_PER_ACTIVATION, known?.last ?? 0) + 1;
    const events = known === undefined || known.isOver ? new RunEvents(next) : known;
    this.#runs.set(run, events);
    this.#idle.delete(run);
    const whileCurrent = (emit: () => void) => {
      if (this.#attempts.get(run) === own) emit();
    };
    const own: AttemptEvents = {
      emit: (event, data) =>
        whileCurrent(() => {
          const made = { id: next++, event, data: JSON.stringify(data) };
          events.add(made);
          onEvent(made);
        }),
      end: () =>
        whileCurrent(() => {
          events.end();
          this.#setIdle(run);
        }),
      idle: () => whileCurrent(() => this.#setIdle(run)),
    };
    this.#attempts.set(run, own);
    return own;
  }

  #setIdle(run: string): void {
    this.#attempts.delete(run);
    this.#idle.add(run);
    for (const old of this.#idle) {
      if (this.#idle.size <= MAX_IDLE) return;
      this.#idle.delete(old);
      this.#runs.get(old)?.drop();
      this.#runs.delete(old);
    }
  }

  async follow(_namespace: string, run: string) {
    const events = this.of(run);
    return events === null ? null : { events, close() {} };
  }

  of(run: string): RunEvents | null {
    return this.#runs.get(run) ?? null;
  }
}

/** Guest output as JSON: text if it is valid UTF-8, else base64. */
export function bytesJson(bytes: Uint8Array): { readonly text: string } | { readonly base64: string } {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return { base64: Buffer.from(bytes).toString('base64') };
  }
}
