import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { nearestKey } from '../base/nearest-key.ts';
import { UsageError } from './usage-error.ts';

/** The flags and words of a command line. @throws UsageError in words for the person who typed it */
export function parseFlags<Options extends ParseArgsOptionsConfig>(
  argv: readonly string[],
  options: Options,
  command: string,
) {
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true, strict: true });
  } catch (error) {
    throw flagError(error as Error & { readonly code?: unknown }, command, Object.keys(options));
  }
}

/** Never repeats a value: it may be a token. */
function flagError(
  { code, message }: { readonly code?: unknown; readonly message: string },
  command: string,
  flags: readonly string[],
): UsageError {
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

/** The number that a flag gives, or undefined where it is not given. @throws UsageError */
export function wholeNumber(
  flag: string,
  text: string | undefined,
  { min, max }: { readonly min: number; readonly max: number },
): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw new UsageError(`--${flag}: expected a whole number from ${min} to ${max}, found ${JSON.stringify(text)}`);
}
