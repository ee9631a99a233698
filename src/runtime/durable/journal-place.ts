import type { BlockCipher } from './block-cipher.ts';
import type { JournalError } from './journal-error.ts';

/** Where the lines of a journal go, by one writer. */
export interface JournalWriter {
  /** Written soon, and before anything that is written at once; nothing is, once something could not be. */
  append(line: string): void;
  /**
   * Everything so far is written when this returns, unless there is `written`: then it is on its way.
   * @throws JournalError if it cannot be
   */
  flush(): void;
  /** For a place that answers later: everything so far is written when it resolves. @throws JournalError */
  readonly written?: (() => Promise<void>) | undefined;
  /** The last line may be written beyond the limit. Nothing follows it. */
  close(last: string): void;
  /** Nothing more is written. */
  abandon(): void;
}

/** Where an existing journal goes on. */
export interface JournalEnd {
  /** Of what counts: what follows is cut off. */
  readonly bytes: number;
  /** Of its last block. */
  readonly hash: string;
  /** What follows that block, and has no hash yet. */
  readonly unsealed: string;
}

export interface WriterOptions {
  readonly maxBytes: number;
  /** Null: it is written in the clear. */
  readonly cipher: BlockCipher | null;
  /** It has no more room, or cannot be written: the run is to end. */
  readonly onFull: (why: JournalError) => void;
}

/** A place for the blocks of one journal that is no file. */
export interface JournalPlace {
  /** What it has so far; null: nothing. */
  readonly bytes: Uint8Array | null;
  writer(options: WriterOptions, end: JournalEnd | null): JournalWriter;
}
