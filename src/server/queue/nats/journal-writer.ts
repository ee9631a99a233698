import { NO_BLOCK, sealBlock } from '../../../runtime/durable/blocks.ts';
import { JournalError } from '../../../runtime/durable/journal-error.ts';
import type { JournalEnd, JournalWriter, WriterOptions } from '../../../runtime/durable/journal-file.ts';
import type { OwnedRun } from './owned-run.ts';

/** Lines that no effect waits for are batched for this long: a message costs more than a write. */
const BATCH_MS = 50;
const MAX_BATCH_CHARS = 256 * 1024;

/**
 * Writes the journal of a run to its subject: the same blocks as in a file. One message is in flight at a time, and
 * contains all lines appended since the message before.
 */
export class SubjectJournal implements JournalWriter {
  readonly #owned: OwnedRun;
  readonly #options: WriterOptions;
  #hash: string;
  #bytes: number;
  #lines: string[] = [];
  #chars = 0;
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> | null = null;
  #isFull = false;
  #isClosed = false;

  constructor(owned: OwnedRun, options: WriterOptions, end: JournalEnd | null) {
    this.#owned = owned;
    this.#options = options;
    this.#hash = end?.hash ?? NO_BLOCK;
    this.#bytes = end?.bytes ?? 0;
    owned.journalSent = () => this.#sent();
  }

  append(line: string): void {
    if (this.#isFull || this.#isClosed) return;
    this.#lines.push(line);
    this.#chars += line.length;
    if (this.#chars > MAX_BATCH_CHARS) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), BATCH_MS).unref();
  }

  flush(): void {
    if (this.#isFull) throw this.#error('an earlier entry could not be written');
    this.#send();
  }

  readonly written = async (): Promise<void> => {
    this.flush();
    // Also waits for lines appended meanwhile, which is more than needed but rare.
    await this.#sent();
    if (this.#isFull) throw this.#error('an earlier entry could not be written');
    if (!(await this.#owned.mayAct())) throw this.#error(String(this.#owned.lost.reason));
  };

  close(last: string): void {
    if (this.#isClosed) return;
    if (this.#isFull) this.#lines = [last];
    else this.#lines.push(last);
    this.#isFull = false;
    this.#isClosed = true;
    this.#send();
  }

  abandon(): void {
    this.#isClosed = true;
    this.#lines = [];
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  async #sent(): Promise<void> {
    while (this.#sending !== null) await this.#sending;
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null;
    });
  }

  async #sendAll(): Promise<void> {
    while (this.#lines.length > 0) {
      const lines = this.#lines;
      this.#lines = [];
      this.#chars = 0;
      const block = this.#sealed(lines);
      if (block === null) return;
      // The run was lost, which ends its guest.
      if (!(await this.#owned.append('block', block))) return;
    }
  }

  /** Null: the journal is full. */
  #sealed(lines: readonly string[]): string | null {
    const { cipher, maxBytes, onFull } = this.#options;
    let text = '';
    let hash = this.#hash;
    if (cipher !== null && hash === NO_BLOCK) {
      // In one message with the following block: a journal with only this line is invalid.
      const first = sealBlock([cipher.firstLine], hash);
      text = first.text;
      hash = first.hash;
    }
    const sealed = sealBlock(cipher === null ? lines : [cipher.seal(lines.join('\n'), hash)], hash);
    text += sealed.text;
    const bytes = this.#bytes + Buffer.byteLength(text);
    if (bytes > maxBytes && !this.#isClosed) {
      this.#isFull = true;
      onFull(this.#error(`the journal would exceed limits.journal_bytes = ${maxBytes}`));
      return null;
    }
    this.#bytes = bytes;
    this.#hash = sealed.hash;
    return text;
  }

  #error(why: string): JournalError {
    return new JournalError(this.#owned.subject, why);
  }
}
