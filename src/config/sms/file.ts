import { dirname, isAbsolute, join, resolve } from 'node:path';
import { parse as parseToml, TomlError } from 'smol-toml';
import { errorCode } from '../../base/error-text.ts';
import { ConfigError } from '../config-error.ts';
import type { ReadTextFile } from '../host/file.ts';
import { checkSmsDocument, type SmsDocument } from './schema.ts';

export interface SmsConfigFile {
  /** In the user's own spelling. */
  readonly path: string;
  /** Paths inside the file are relative to this folder. */
  readonly folder: string;
  readonly document: SmsDocument;
}

/** The file of the flag, else of SMS_CONFIG, else the user's own if there is one. */
export function readSmsFile(
  flag: string | undefined,
  env: NodeJS.ProcessEnv,
  readFile: ReadTextFile,
): SmsConfigFile | null {
  const named = flag ?? (env.SMS_CONFIG || undefined);
  const path = named ?? userFile(env);
  if (path === null) return null;
  const text = read(path, named !== undefined, readFile);
  return text === null ? null : { path, folder: dirname(resolve(path)), document: parse(path, text) };
}

function userFile(env: NodeJS.ProcessEnv): string | null {
  if (env.XDG_CONFIG_HOME && isAbsolute(env.XDG_CONFIG_HOME)) return join(env.XDG_CONFIG_HOME, 'spear', 'sms.toml');
  const home = env.HOME || env.USERPROFILE;
  return home ? join(home, '.config', 'spear', 'sms.toml') : null;
}

function read(path: string, required: boolean, readFile: ReadTextFile): string | null {
  try {
    return readFile(path);
  } catch (error) {
    const code = errorCode(error) ?? String(error);
    if (!required && (code === 'ENOENT' || code === 'ENOTDIR')) return null;
    throw new ConfigError(`${path}: the config file cannot be read (${code})`);
  }
}

function parse(path: string, text: string): SmsDocument {
  let parsed: unknown;
  try {
    parsed = parseToml(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const reason = error.message.split('\n', 1)[0]?.replace('Invalid TOML document: ', '');
    throw new ConfigError(`${path}:${error.line}:${error.column}: not valid TOML: ${reason}`);
  }
  const checked = checkSmsDocument(path, parsed);
  if ('complaint' in checked) throw new ConfigError(checked.complaint);
  return checked.document;
}
