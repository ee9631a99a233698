import { Listeners } from '../base/listeners.ts';

/** What happened in a run, for those who watch it. */
export interface RunEvent {
  /** Rises over all attempts of the run. */
  readonly id: number;
  readonly event: 'output' | 'log' | 'model' | 'tool' | 'status';
  readonly data: string;
}

/** Each attempt has room for so many: the next one's ids are higher, whatever was lost. */
const IDS_PER_ATTEMPT = 1_000_000_000;
/** What is kept for readers that come late or come back, for each run. */
const MAX_KEPT_CHARS = 256 * 1024;
/** Runs that have ended and whose events are still here. */
const MAX_ENDED = 128;

/** The events of one run, the last of them kept. */
export class RunEvents {
  readonly #listeners = new Listeners<RunEvent | 'gap' | 'end'>();
  #kept: RunEvent[] = [];
  #chars = 0;
  #next: number;
  #first: number;
  #hasEnded = false;

  constructor(attempt: number) {
    this.#next = attempt * IDS_PER_ATTEMPT + 1;
    this.#first = this.#next;
  }

  /** Another attempt: its ids are higher. */
  goOn(attempt: number): void {
    this.#next = Math.max(this.#next, attempt * IDS_PER_ATTEMPT + 1);
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  emit(event: RunEvent['event'], data: unknown): void {
    this.add({ id: this.#next++, event, data: JSON.stringify(data) });
  }

  /** One that has its id already. */
  add(made: RunEvent): void {
    this.#kept.push(made);
    this.#chars += made.data.length;
    while (this.#chars > MAX_KEPT_CHARS && this.#kept.length > 1) {
      const gone = this.#kept.shift();
      this.#chars -= gone?.data.length ?? 0;
      this.#first = (gone?.id ?? 0) + 1;
    }
    this.#listeners.tell(made);
  }

  /** Some that came before the next one are gone. */
  gap(): void {
    this.#listeners.tell('gap');
  }

  end(): void {
    this.#hasEnded = true;
    this.#listeners.tell('end');
  }

  /** What is kept after `last`; `isGap`: some that came between are gone. */
  since(last: number | null): { readonly events: readonly RunEvent[]; readonly isGap: boolean } {
    const from = last ?? this.#first - 1;
    return { events: this.#kept.filter(({ id }) => id > from), isGap: from + 1 < this.#first };
  }

  listen(listener: (event: RunEvent | 'gap' | 'end') => void): () => void {
    return this.#listeners.add(listener);
  }
}

/** Where the events of a run can be followed. */
export interface RunEventSource {
  /** Those after `last`, all where it is null; null: there are none. `close`: nobody follows any more. */
  follow(
    namespace: string,
    run: string,
    last: number | null,
  ): Promise<{ readonly events: RunEvents; close(): void } | null>;
}

/** The events of the runs that run in this process, and of those that ended last. */
export class AllRunEvents implements RunEventSource {
  readonly #runs = new Map<string, RunEvents>();
  readonly #ended = new Set<string>();

  /** `attempt`: how often it was begun, those included that cost none. */
  begin(run: string, attempt: number): RunEvents {
    const known = this.#runs.get(run);
    const events = known === undefined || known.hasEnded ? new RunEvents(attempt) : known;
    events.goOn(attempt);
    this.#runs.set(run, events);
    this.#ended.delete(run);
    return events;
  }

  end(run: string): void {
    this.#runs.get(run)?.end();
    this.rest(run);
  }

  /** Nothing happens in it for now: its events are kept as those of runs that have ended are. */
  rest(run: string): void {
    this.#ended.add(run);
    for (const old of this.#ended) {
      if (this.#ended.size <= MAX_ENDED) return;
      this.#ended.delete(old);
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

/** Bytes of a guest as JSON: text where they are text. */
export function bytesJson(bytes: Uint8Array): { readonly text: string } | { readonly base64: string } {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return { base64: Buffer.from(bytes).toString('base64') };
  }
}
