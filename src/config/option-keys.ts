import { unknownKey } from '../base/validation.ts';
import { ConfigError } from './config-error.ts';

/** Every option name once; the compiler reports a missing one. */
export type OptionKeys<Options> = Readonly<Record<keyof Options, true>>;

/**
 * Rejects unknown options of the library: a misspelled option would silently have its default.
 * @throws ConfigError
 */
export function refuseUnknownKeys(what: string, given: object, valid: object): void {
  if (typeof given !== 'object' || given === null) throw new ConfigError(`${what}: expected an object of options`);
  const problem = unknownKey(given, Object.keys(valid));
  if (problem !== null) throw new ConfigError(`${what}: ${problem}`);
}
