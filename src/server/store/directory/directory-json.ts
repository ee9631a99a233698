import { type JSONPath, type JSONVisitor, printParseErrorCode, visit } from 'jsonc-parser';
import { tooDeepAt } from '../../../base/json-depth.ts';
import { FieldLines } from './directory-lines.ts';

/** A JSON text that cannot be read, without a word of its content: JSON.parse quotes it, secrets included. */
export class JsonTextError extends Error {
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.name = 'JsonTextError';
    this.line = line;
  }
}

const MAX_JSON_DEPTH = 32;

/** By the parser's names; all others are something that is not JSON. */
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

/** The line of every field of a JSON text; throws JsonTextError where the text is not JSON or gives a key twice. */
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
