import { type JSONPath, type JSONVisitor, printParseErrorCode, visit } from 'jsonc-parser';
import { tooDeepAt } from '../../../base/json.ts';
import { pathText } from '../../records/fields.ts';

/** Line numbers of the fields in a file. Paths are written as in RecordIssue. */
export class FieldLines {
  readonly #lines = new Map<string, number>();

  /** False if the field was already present. */
  add(path: readonly PropertyKey[], line: number): boolean {
    const text = pathText(path);
    if (this.#lines.has(text)) return false;
    this.#lines.set(text, line);
    return true;
  }

  /** The line of the field, or of the nearest enclosing field with a known line. */
  of(path: string): number | null {
    for (let text = path; text !== ''; text = parentOf(text)) {
      const line = this.#lines.get(text);
      if (line !== undefined) return line;
    }
    return null;
  }
}

function parentOf(path: string): string {
  const cut = /(?:\.[\w-]+|\[(?:\d+|"(?:[^"\\]|\\.)*")\]|^[\w-]+)$/.exec(path);
  return cut === null ? '' : path.slice(0, cut.index);
}

const tomlKey = `(?:[\\w-]+|"[^"\\n]*"|'[^'\\n]*')`;
const tomlKeys = `${tomlKey}(?:[ \\t]*\\.[ \\t]*${tomlKey})*`;
const tomlTable = new RegExp(`^[ \\t]*\\[[ \\t]*(${tomlKeys})[ \\t]*\\]`);
const tomlPair = new RegExp(`^[ \\t]*(${tomlKeys})[ \\t]*=`);

/**
 * Finds tables and keys line by line, because the TOML parser does not report positions. Only messages use it: for syntax that
 * it does not recognize, a message names the line of the enclosing table.
 */
export function tomlFieldLines(text: string): FieldLines {
  const lines = new FieldLines();
  let table: string[] = [];
  let insideText = false;
  for (const [index, line] of text.split('\n').entries()) {
    const header = insideText ? null : tomlTable.exec(line);
    const pair = insideText ? null : tomlPair.exec(line);
    if (header !== null) {
      table = splitTomlKeys(header[1] ?? '');
      lines.add(table, index + 1);
    } else if (pair !== null) {
      lines.add([...table, ...splitTomlKeys(pair[1] ?? '')], index + 1);
    }
    if ((line.match(/"""|'''/g)?.length ?? 0) % 2 === 1) insideText = !insideText;
  }
  return lines;
}

function splitTomlKeys(keys: string): string[] {
  return [...keys.matchAll(new RegExp(tomlKey, 'g'))].map(([key]) => key.replace(/^["'](.*)["']$/, '$1'));
}

/** Invalid JSON. Unlike the message of JSON.parse, this one does not quote the text, which may contain secrets. */
export class JsonTextError extends Error {
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.name = 'JsonTextError';
    this.line = line;
  }
}

const MAX_JSON_DEPTH = 32;

/** Messages by the parser's error names; every other error means that the text is not JSON. */
const complaints: Readonly<Record<string, string>> = {
  PropertyNameExpected: 'a key in double quotes is missing',
  ValueExpected: 'a value is missing',
  ColonExpected: 'a ":" is missing',
  CommaExpected: 'a "," is missing',
  CloseBraceExpected: 'a "}" is missing',
  CloseBracketExpected: 'a "]" is missing',
  EndOfFileExpected: 'unexpected text after the end of the JSON value',
  UnexpectedEndOfString: 'a string is not terminated on its line',
  InvalidUnicode: 'a string has an invalid escape sequence',
  InvalidEscapeCharacter: 'a string has an invalid escape sequence',
  InvalidCharacter: 'a string contains a control character',
};

/** The line of every field of a JSON text. @throws JsonTextError if the text is not JSON or has a duplicate key */
export function jsonFieldLines(text: string): FieldLines {
  const tooDeep = tooDeepAt(text, MAX_JSON_DEPTH);
  if (tooDeep !== null) {
    const line = text.slice(0, tooDeep).split('\n').length;
    throw new JsonTextError(`nested deeper than ${MAX_JSON_DEPTH} levels`, line);
  }
  const lines = new FieldLines();
  let first: JsonTextError | null = null;
  const fail = (message: string, line: number) => {
    first ??= new JsonTextError(message, line + 1);
  };
  const addItem = (line: number, path: JSONPath) => {
    if (typeof path.at(-1) === 'number') lines.add(path, line + 1);
  };
  const visitor: JSONVisitor = {
    onObjectProperty(name, _offset, _length, line, _character, pathOf) {
      if (!lines.add([...pathOf(), name], line + 1)) fail('duplicate key', line);
    },
    onObjectBegin: (_offset, _length, line, _character, pathOf) => addItem(line, pathOf()),
    onArrayBegin: (_offset, _length, line, _character, pathOf) => addItem(line, pathOf()),
    onLiteralValue: (_value, _offset, _length, line, _character, pathOf) => addItem(line, pathOf()),
    onError(code, offset, _length, line) {
      if (first !== null) return;
      const isEnd = text.slice(offset).trim() === '';
      fail(isEnd ? 'unexpected end of file' : (complaints[printParseErrorCode(code)] ?? 'unexpected character'), line);
    },
  };
  visit(text, visitor, { disallowComments: true });
  if (first !== null) throw first;
  return lines;
}
