import { unknownKey } from '../base/unknown-key.ts';
import { ConfigError } from './config-error.ts';

/** Names every option once, so that none is forgotten when one is added. */
export type OptionKeys<Options> = Readonly<Record<keyof Options, true>>;

/**
 * Options of the library are refused rather than left unread: a typing error would be a default in disguise.
 * @throws ConfigError
 */
export function refuseUnknownKeys(what: string, given: object, valid: object): void {
  if (typeof given !== 'object' || given === null) throw new ConfigError(`${what}: expected an object of options`);
  const problem = unknownKey(given, Object.keys(valid));
  if (problem !== null) throw new ConfigError(`${what}: ${problem}`);
}
