import { ConfigError } from '../../config/config-error.ts';

/** A journal cannot be used; the message names the file. */
export class JournalError extends ConfigError {
  readonly file: string;

  /** `cause`: the system error, if there was one. */
  constructor(file: string, what: string, cause?: unknown) {
    super(`${file}: ${what}`, { cause });
    this.file = file;
    this.name = 'JournalError';
  }
}

/** The first record is not a complete header: not a journal, or its writer was killed before the guest started. */
export class JournalHeaderMissing extends JournalError {
  constructor(file: string) {
    super(file, 'line 1: not a journal header');
    this.name = 'JournalHeaderMissing';
  }
}

/** The journal is encrypted and no key was given. */
export class JournalKeyMissing extends JournalError {
  constructor(file: string, id: string) {
    super(
      file,
      `encrypted with key ${id}: pass this key with --journal-key REFERENCE or set [journal] key in the config`,
    );
    this.name = 'JournalKeyMissing';
  }
}
