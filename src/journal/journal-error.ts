import { ConfigError } from '../config/config-error.ts';

/** A journal that cannot be used, or that says another thing than what is there; the message names the file. */
export class JournalError extends ConfigError {
  constructor(file: string, what: string) {
    super(`${file}: ${what}`);
    this.name = 'JournalError';
  }
}

/** It is encrypted, and no key was given. */
export class JournalKeyMissing extends JournalError {
  constructor(file: string, id: string) {
    super(
      file,
      `it is encrypted by the key ${id}: name it with --journal-key REFERENCE or [journal] key of the config`,
    );
    this.name = 'JournalKeyMissing';
  }
}
