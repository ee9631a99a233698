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
      `encrypted with key ${id}: pass this key with --journal-key REFERENCE or set [journal] key in the config`,
    );
    this.name = 'JournalKeyMissing';
  }
}
