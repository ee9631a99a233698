import { ConfigError } from '../../config/config-error.ts';

/** A journal that cannot be used, or that says another thing than what is there; the message names the file. */
export class JournalError extends ConfigError {
  readonly file: string;

  /** `cause`: the error of the system, where there was one. */
  constructor(file: string, what: string, cause?: unknown) {
    super(`${file}: ${what}`, { cause });
    this.file = file;
    this.name = 'JournalError';
  }
}

/** The first record is not a whole header: the file is no journal, or its writer was killed before the guest started. */
export class JournalHeaderMissing extends JournalError {
  constructor(file: string) {
    super(file, 'line 1: not a journal header');
    this.name = 'JournalHeaderMissing';
  }
}

/** It is encrypted, and no key was given. */
export class JournalKeyMissing extends JournalError {
  constructor(file: string, id: string) {
    super(
      file,
      `encrypted with key ${id}: pass this key with --journal-key REFERENCE or set [journal] key in the config`,
    );
    this.name = 'JournalKeyMissing';
  }
}
