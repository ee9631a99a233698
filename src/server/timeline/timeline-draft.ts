import { RunningText } from './running-text.ts';
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
