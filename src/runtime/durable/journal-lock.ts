import { closeSync, openSync, realpathSync, rmSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { errorCode, errorText } from '../../base/error-text.ts';
import { JournalError } from './journal-error.ts';

const PRIVATE = 0o600;
/** Its holder may remove the file between two steps of who comes next. */
const TRIES = 10;

/**
 * One process writes to a journal. The lock is that of the system on a file beside it, which SQLite takes: Node has no
 * call for it. A process that is ended in whatever way lets go of it; the empty file that stays then is in nobody's way.
 */
export class JournalLock {
  readonly #path: string;
  readonly #held: DatabaseSync;

  private constructor(path: string, held: DatabaseSync) {
    this.#path = path;
    this.#held = held;
  }

  /** Precondition: the journal is there. @throws JournalError where another has it */
  static take(journal: string): JournalLock {
    try {
      // Under whatever name it is known: links to a journal are the same journal.
      const path = `${realpathSync(journal)}.lock`;
      for (let left = TRIES; left > 0; left--) {
        const held = tryOnce(path);
        if (held !== null) return new JournalLock(path, held);
      }
      throw new Error('the file was removed repeatedly');
    } catch (error) {
      const reason = errorText(error);
      if (reason.includes('locked')) throw new JournalError(journal, 'another process is writing this journal');
      throw new JournalError(journal, `cannot lock ${journal}.lock (${errorCode(error) ?? reason})`, error);
    }
  }

  release(): void {
    rmSync(this.#path, { force: true });
    this.#held.close();
  }
}

/** Null: what was locked is not there any more under this name. */
function tryOnce(path: string): DatabaseSync | null {
  closeSync(openSync(path, 'a', PRIVATE));
  const { ino } = statSync(path);
  const held = new DatabaseSync(path, { timeout: 0 });
  try {
    held.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE'); // no second file beside it
    if (statSync(path, { throwIfNoEntry: false })?.ino === ino) return held;
  } catch (error) {
    held.close();
    throw error;
  }
  held.close();
  return null;
}
