import { Listeners } from '../../base/listeners.ts';

/** What happened in a run, for those who watch it. */
export interface RunEvent {
  /** Rises over all lives of the run. */
  readonly id: number;
  readonly event: 'output' | 'log' | 'model' | 'tool' | 'status';
  readonly data: string;
}

/** Each life of a run has room for so many: the next one's ids are higher, whatever was lost. */
const IDS_PER_LIFE = 1_000_000_000;

/** Which life of its run told this. */
export const lifeOf = ({ id }: RunEvent): number => Math.floor(id / IDS_PER_LIFE);
/** What is kept for readers that come late or come back, for each run. */
const MAX_KEPT_CHARS = 256 * 1024;
/** Runs that have ended, or wait, and whose events are still here. */
const MAX_RESTING = 128;

/** Told to those who follow a run: `gone` where its events are not kept here any more, and they are to ask again. */
export type RunNews = RunEvent | 'gap' | 'end' | 'gone';

/** The events of one run over all its attempts, the last of them kept. */
export class RunEvents {
  readonly #listeners = new Listeners<RunNews>();
  #kept: RunEvent[] = [];
  #chars = 0;
  #first: number;
  #last: number;
  #isOver = false;
  #hasEnded = false;

  /** `first`: the lowest id that it may have. */
  constructor(first = 1) {
    this.#first = first;
    this.#last = first - 1;
  }

  /** Id of the last that was told. */
  get last(): number {
    return this.#last;
  }

  /** The run has. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Nothing more is told here: the run has ended, or its events are not kept any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  add(made: RunEvent): void {
    this.#last = made.id;
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
    this.#isOver = true;
    this.#listeners.tell('end');
  }

  drop(): void {
    this.#isOver = true;
    this.#listeners.tell('gone');
  }

  /** What is kept after `last`; `isGap`: some that came between are gone. */
  since(last: number | null): { readonly events: readonly RunEvent[]; readonly isGap: boolean } {
    const from = last ?? this.#first - 1;
    return { events: this.#kept.filter(({ id }) => id > from), isGap: from + 1 < this.#first };
  }

  listen(listener: (news: RunNews) => void): () => void {
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

/** What one attempt tells of its run. One that was replaced, and does not know it yet, tells nothing any more. */
export interface AttemptEvents {
  emit(event: RunEvent['event'], data: unknown): void;
  /** The run has ended. */
  end(): void;
  /** Nothing happens in it for now: its events are kept as those of runs that have ended are. */
  rest(): void;
}

/** The events of the runs that run in this process, and of those that ended last. */
export class AllRunEvents implements RunEventSource {
  readonly #runs = new Map<string, RunEvents>();
  /** Whose word counts. */
  readonly #attempts = new Map<string, AttemptEvents>();
  /** Those in which nothing happens. */
  readonly #resting = new Set<string>();

  /** `life`: how often it was begun, and taken up again. `told` hears what this one tells. */
  begin(run: string, life: number, told: (event: RunEvent) => void = () => {}): AttemptEvents {
    const known = this.#runs.get(run);
    let next = Math.max(life * IDS_PER_LIFE, known?.last ?? 0) + 1;
    const events = known === undefined || known.isOver ? new RunEvents(next) : known;
    this.#runs.set(run, events);
    this.#resting.delete(run);
    const whileMine = (tell: () => void) => {
      if (this.#attempts.get(run) === own) tell();
    };
    const own: AttemptEvents = {
      emit: (event, data) =>
        whileMine(() => {
          const made = { id: next++, event, data: JSON.stringify(data) };
          events.add(made);
          told(made);
        }),
      end: () =>
        whileMine(() => {
          events.end();
          this.#rest(run);
        }),
      rest: () => whileMine(() => this.#rest(run)),
    };
    this.#attempts.set(run, own);
    return own;
  }

  #rest(run: string): void {
    this.#attempts.delete(run);
    this.#resting.add(run);
    for (const old of this.#resting) {
      if (this.#resting.size <= MAX_RESTING) return;
      this.#resting.delete(old);
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

/** Bytes of a guest as JSON: text where they are text. */
export function bytesJson(bytes: Uint8Array): { readonly text: string } | { readonly base64: string } {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return { base64: Buffer.from(bytes).toString('base64') };
  }
}
