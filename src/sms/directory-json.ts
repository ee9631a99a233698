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

const jsonToken =
  /[ \t\r\n]*(?:([{}[\],:])|("(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null))/y;
const jsonSpace = /[ \t\r\n]*/y;

/** The line of every field of a JSON text; throws JsonTextError where the text is not JSON or gives a key twice. */
export function jsonFieldLines(text: string): FieldLines {
  return new JsonWalk(text).run();
}

class JsonWalk {
  readonly #text: string;
  readonly #lines = new FieldLines();
  #at = 0;
  #line = 1;
  #token = '';

  constructor(text: string) {
    this.#text = text;
  }

  run(): FieldLines {
    this.#advance();
    this.#value([]);
    if (this.#text.slice(this.#at).trim() !== '') this.#fail('there is something after the end of the JSON value');
    return this.#lines;
  }

  #value(path: readonly PropertyKey[]): void {
    if (path.length > MAX_JSON_DEPTH) this.#fail(`it is nested deeper than ${MAX_JSON_DEPTH} levels`);
    if (this.#token === '{') this.#object(path);
    else if (this.#token === '[') this.#array(path);
    else if (/^[}\],:]/.test(this.#token)) this.#fail('a value is missing');
  }

  #object(path: readonly PropertyKey[]): void {
    this.#advance();
    while (this.#token !== '}') {
      if (!this.#token.startsWith('"')) this.#fail('a key in double quotes is missing');
      const field = [...path, JSON.parse(this.#token) as string];
      if (!this.#lines.add(field, this.#line)) this.#fail('a key is given twice');
      this.#advance();
      if (this.#token !== ':') this.#fail('a ":" is missing');
      this.#advance();
      this.#value(field);
      this.#next('}');
    }
  }

  #array(path: readonly PropertyKey[]): void {
    this.#advance();
    for (let index = 0; this.#token !== ']'; index++) {
      this.#lines.add([...path, index], this.#line);
      this.#value([...path, index]);
      this.#next(']');
    }
  }

  /** After a value: a comma and another one, or the end. */
  #next(end: string): void {
    this.#advance();
    if (this.#token === end) return;
    if (this.#token !== ',') this.#fail(`a "," or "${end}" is missing`);
    this.#advance();
    if (this.#token === end) this.#fail(`there is a "," before the "${end}"`);
  }

  #advance(): void {
    jsonToken.lastIndex = this.#at;
    const match = jsonToken.exec(this.#text);
    if (match === null) this.#failAfterSpace();
    this.#moveTo(jsonToken.lastIndex);
    this.#token = match[1] ?? match[2] ?? match[3] ?? '';
    if ([...this.#token].some((character) => character < ' ')) this.#fail('a text holds a control character');
  }

  #failAfterSpace(): never {
    jsonSpace.lastIndex = this.#at;
    jsonSpace.test(this.#text);
    this.#moveTo(jsonSpace.lastIndex);
    this.#fail(this.#at === this.#text.length ? 'it ends too early' : 'there is something that is not JSON');
  }

  #moveTo(end: number): void {
    for (let at = this.#text.indexOf('\n', this.#at); at !== -1 && at < end; at = this.#text.indexOf('\n', at + 1))
      this.#line++;
    this.#at = end;
  }

  #fail(message: string): never {
    throw new JsonTextError(message, this.#line);
  }
}
