import { parse, TomlError } from 'smol-toml';
import { ConfigError } from './config-error.ts';
import type { ConfigFile } from './config-file.ts';

/** A TOML text that cannot be read. The parser's own message goes on with the lines around, and those may hold a key. */
export class TomlTextError extends Error {
  readonly line: number;
  readonly column: number;

  constructor({ message, line, column }: TomlError) {
    super(`not valid TOML: ${message.split('\n', 1)[0]?.replace('Invalid TOML document: ', '')}`);
    this.name = 'TomlTextError';
    this.line = line;
    this.column = column;
  }
}

export function parseToml(text: string): unknown {
  try {
    return parse(text);
  } catch (error) {
    throw error instanceof TomlError ? new TomlTextError(error) : error;
  }
}

export type Checked<Document> = { readonly document: Document } | { readonly complaint: string };

/** The document of a config file. Whatever is wrong with it is a ConfigError that names the place. */
export function readTomlFile<Document>(
  file: ConfigFile,
  check: (path: string, parsed: unknown) => Checked<Document>,
): Document {
  const checked = check(file.path, parseNamedToml(file));
  if ('complaint' in checked) throw new ConfigError(checked.complaint);
  return checked.document;
}

/** @throws ConfigError that names the file, the line and the column */
export function parseNamedToml({ path, text }: Pick<ConfigFile, 'path' | 'text'>): unknown {
  try {
    return parseToml(text);
  } catch (error) {
    if (!(error instanceof TomlTextError)) throw error;
    throw new ConfigError(`${path}:${error.line}:${error.column}: ${error.message}`);
  }
}
