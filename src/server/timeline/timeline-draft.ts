import type { ShowText } from './shown-text.ts';
import type { Attempt, EntryStatus, TimelineEntry } from './timeline-entry.ts';

/** What is still being found out about something. */
export type Draft<Shape> = { -readonly [Key in keyof Shape]: Shape[Key] };

/** The entries so far, and the time that is read. */
export class TimelineDraft {
  readonly show: ShowText;
  readonly entries: TimelineEntry[] = [];
  readonly attempts: Draft<Attempt>[] = [];
  readonly text: RunningText;
  #attempt: Draft<Attempt> = { attempt: 1, start_ms: 0, end_ms: 0 };
  /** Since the run began. */
  ms = 0;

  constructor(show: ShowText) {
    this.show = show;
    this.text = new RunningText(show, this.entries);
    this.attempts.push(this.#attempt);
  }

  /** Clocks may go backwards; a timeline does not. */
  advance(ms: number): void {
    this.ms = Math.max(ms, this.ms);
  }

  /** The run was going on at this time. */
  lives(): void {
    this.#attempt.end_ms = this.ms;
  }

  resumed(attempt: number): void {
    this.#attempt = { attempt, start_ms: this.ms, end_ms: this.ms };
    this.attempts.push(this.#attempt);
  }

  add<Kind extends TimelineEntry>(entry: Kind): Draft<Kind> {
    this.text.end();
    this.entries.push(entry);
    return entry;
  }

  /** Something that takes no time. */
  now(status: EntryStatus) {
    return { start_ms: this.ms, end_ms: this.ms, status, send: null };
  }

  /** Something that is not over yet. */
  since(status: EntryStatus, send: number | null) {
    return { start_ms: this.ms, end_ms: null, status, send };
  }
}

/** Two pieces that lie further apart are told apart. */
const GAP_MS = 1_000;
/** So much of it is put together at most. */
const MAX_BYTES = 64 * 1024;

interface Open {
  readonly of: 'stdin' | 'stdout' | 'stderr';
  readonly at: number;
  readonly start_ms: number;
  end_ms: number;
  bytes: number;
  readonly pieces: Buffer[];
}

/** What a guest reads or prints comes in small pieces; what belongs together is one entry, and masked as one. */
export class RunningText {
  readonly #show: ShowText;
  readonly #entries: TimelineEntry[];
  #open: Open | null = null;

  constructor(show: ShowText, entries: TimelineEntry[]) {
    this.#show = show;
    this.#entries = entries;
  }

  get isOpen(): boolean {
    return this.#open !== null;
  }

  printed(fd: 'stdout' | 'stderr', at: number, piece: Buffer, ms: number): void {
    this.#take(fd, at, piece, ms);
  }

  read(piece: Buffer, ms: number): void {
    if (piece.byteLength > 0) this.#take('stdin', 0, piece, ms);
  }

  /** Something else happened. */
  end(): void {
    const open = this.#open;
    if (open === null) return;
    this.#open = null;
    const { of, at, start_ms, end_ms, bytes, pieces } = open;
    const text = this.#show(Buffer.concat(pieces).toString('utf8'));
    const when = { start_ms, end_ms, status: 'ok', send: null } as const;
    this.#entries.push(
      of === 'stdin' ? { kind: 'input', ...when, bytes, text } : { kind: 'output', ...when, fd: of, at, bytes, text },
    );
  }

  #take(of: Open['of'], at: number, piece: Buffer, ms: number): void {
    const open = this.#open;
    if (open !== null && open.of === of && ms - open.end_ms <= GAP_MS && open.bytes < MAX_BYTES) {
      open.pieces.push(piece);
      open.bytes += piece.byteLength;
      open.end_ms = ms;
      return;
    }
    this.end();
    this.#open = { of, at, start_ms: ms, end_ms: ms, bytes: piece.byteLength, pieces: [piece] };
  }
}
