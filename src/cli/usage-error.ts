import { nearestKey } from '../base/nearest-key.ts';

/** The command line is wrong; the message says which flag, and what to do. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UsageError';
  }
}

/** What `parseArgs` complains of, in words for the person who typed it. Never repeats a value: it may be a token. */
export function flagError(error: unknown, command: string, flags: readonly string[]): UsageError {
  const { code, message } = error as NodeJS.ErrnoException;
  const flag = /'(-[^' ]+)/.exec(message)?.[1] ?? '';
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const near = nearestKey(flag.replace(/^-+/, ''), flags);
    return new UsageError(
      `unknown option ${flag}${near ? `; did you mean --${near}?` : `; ${command} --help lists them`}`,
    );
  }
  if (message.includes('is ambiguous')) {
    return new UsageError(`${flag}: what follows begins with a dash; if it is the value, write ${flag}=VALUE`);
  }
  return new UsageError(message.split('\n', 1)[0] ?? 'the command line cannot be read');
}
