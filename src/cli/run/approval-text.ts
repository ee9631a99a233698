import { cutText, startOf } from '../../base/cut-text.ts';
import { isJsonObject, type JsonValue } from '../../base/json.ts';
import { visible } from '../../base/visible-text.ts';
import type { ApprovalRequest, DefinitionChange } from '../../mcp/approval/decider.ts';
import { type ToolHint, toolHints } from '../../policy/approval-rules.ts';
import { looksLikeCredential } from '../../protocol/record-credentials.ts';

/*
 * What a person reads before deciding. Almost all of it was written by somebody who is not trusted: the arguments by a
 * model, the description by a server. So none of it reaches the terminal as it is: what a terminal would obey or hide is
 * written out, and every line of it stands behind a gutter, broken by us and not by the edge of the screen, so that no
 * text can look like a line of the prompt. A credential is shown in part: enough to know which one it is.
 */

const GUTTER = '  │ ';
const MIN_COLUMNS = 40;
const MAX_COLUMNS = 120;
const MAX_LINES = 30;
const MAX_DESCRIPTION_CHARS = 300;
const MAX_STRING_CHARS = 240;
const STRING_HEAD_CHARS = 160;
const STRING_TAIL_CHARS = 60;
const MAX_DEPTH = 8;
const MAX_CHANGES = 12;
const MAX_CHANGE_CHARS = 200;
/** Also where everything is asked for: nobody reads more, and a terminal is slow. */
const MAX_FULL_LINES = 2_000;
const SHOWN_CREDENTIAL_CHARS = 4;
/** Of a shorter one nothing is shown: its beginning would be most of it. */
const MIN_PARTLY_SHOWN_CHARS = 16;

export interface TextOptions {
  readonly columns: number;
  /** Everything, and credentials in clear. */
  readonly full: boolean;
}

export interface RequestText {
  readonly lines: readonly string[];
  /** Whether something was left out or masked, that `full` would show. */
  readonly shortened: boolean;
}

/** The request as lines for a terminal. */
export function describeRequest(request: ApprovalRequest, options: TextOptions): RequestText {
  const { definition, changes } = request;
  const args = argumentLines(request.arguments, options);
  const description = options.full ? definition.description : cutText(definition.description, MAX_DESCRIPTION_CHARS);
  const field = (name: string, text: string) => fieldLines(name, text, options);
  const lines = [
    ...(request.task === null ? [] : field('task', request.task)),
    ...field('server', request.server),
    ...field('tool', request.tool),
    ...field('why', request.cause.text),
    ...hintLines(definition.annotations),
    ...(description === '' ? [] : ['  the server says of it:', ...inGutter([visible(description)], options)]),
    ...(changes.length === 0 ? [] : ['  CHANGED since you allowed it:', ...inGutter(changeLines(changes), options)]),
    '  arguments:',
    ...args.lines,
  ];
  const isCut = description !== definition.description || changes.length > MAX_CHANGES;
  return { lines, shortened: args.shortened || (isCut && !options.full) };
}

function hintLines(annotations: ApprovalRequest['definition']['annotations']): string[] {
  const said = toolHints.filter((hint) => typeof annotations?.[hint] === 'boolean');
  if (said.length === 0) return [];
  const text = said.map((hint: ToolHint) => `${hint} ${annotations?.[hint]}`).join(', ');
  return [`  hints   ${text} (the server's own words)`];
}

function changeLines(changes: readonly DefinitionChange[]): string[] {
  const shown = changes
    .slice(0, MAX_CHANGES)
    .flatMap(({ path, before, after }) => [
      visible(cutText(path, MAX_CHANGE_CHARS)),
      ...(before === undefined ? [] : [`- ${oneLine(before)}`]),
      ...(after === undefined ? [] : [`+ ${oneLine(after)}`]),
    ]);
  return changes.length > MAX_CHANGES ? [...shown, `and ${changes.length - MAX_CHANGES} more changes`] : shown;
}

const oneLine = (value: JsonValue) => visible(cutText(JSON.stringify(value), MAX_CHANGE_CHARS));

function argumentLines(args: JsonValue, options: TextOptions): RequestText {
  const shortener = new Shortener();
  const value = options.full ? args : shortener.shorten('', args, 0);
  const all = inGutter(JSON.stringify(value, null, 2).split('\n').map(visible), options);
  const most = options.full ? MAX_FULL_LINES : MAX_LINES;
  if (all.length <= most) return { lines: all, shortened: shortener.shortened };
  const note = `  … ${all.length - most} more lines`;
  return { lines: [...all.slice(0, most), note], shortened: !options.full };
}

/** A copy with long texts cut in the middle, deep parts left out and credentials masked. */
class Shortener {
  shortened = false;

  shorten(name: string, value: JsonValue, depth: number): JsonValue {
    if (typeof value === 'string') return this.#text(name, value);
    if (typeof value !== 'object' || value === null) return value;
    if (depth >= MAX_DEPTH)
      return this.#left(`… ${Array.isArray(value) ? value.length : Object.keys(value).length} more entries`);
    if (Array.isArray(value)) return value.map((item) => this.shorten(name, item, depth + 1));
    if (!isJsonObject(value)) return value;
    const shown = new Map<string, JsonValue>();
    for (const [key, item] of Object.entries(value)) {
      shown.set(this.#key(key, shown), this.shorten(key, item, depth + 1));
    }
    return Object.fromEntries(shown);
  }

  /** What is cut is said, and two keys that begin alike stay two. */
  #key(key: string, taken: ReadonlyMap<string, unknown>): string {
    if (key.length <= MAX_STRING_CHARS && !taken.has(key)) return key;
    const cut = this.#left(`${startOf(key, STRING_HEAD_CHARS)} …[${key.length} characters]`);
    let name = cut;
    for (let number = 2; taken.has(name); number++) name = `${cut} (${number})`;
    return name;
  }

  #text(name: string, text: string): string {
    const masked = maskCredentials(name, text);
    if (masked !== text) this.shortened = true;
    if (masked.length <= MAX_STRING_CHARS) return masked;
    const hidden = masked.length - STRING_HEAD_CHARS - STRING_TAIL_CHARS;
    const head = startOf(masked, STRING_HEAD_CHARS);
    return this.#left(`${head} …[${hidden} characters]… ${masked.slice(-STRING_TAIL_CHARS)}`);
  }

  #left(text: string): string {
    this.shortened = true;
    return text;
  }
}

/** Only the words that look like one: a command or a url around it is what one has to decide about. */
function maskCredentials(name: string, text: string): string {
  const masked = text.replaceAll(/[^\s"'`=:;,&?<>()|]+/g, maskWord);
  const isOneWord = masked === text && !/\s/.test(text);
  return isOneWord && looksLikeCredential(name, text) ? mask(text) : masked;
}

/** Of a path only the part that looks like one: where it leads is what one has to decide about. */
function maskWord(word: string): string {
  if (!looksLikeCredential('', word)) return word;
  const parts = word.split(/([/\\])/);
  const isPath = parts.length > 1 && /^[/\\.~]/.test(word);
  if (!isPath && !parts.some((part) => looksLikeCredential('', part))) return mask(word);
  return parts.map((part) => (looksLikeCredential('', part) ? mask(part) : part)).join('');
}

function mask(secret: string): string {
  const shown = secret.length < MIN_PARTLY_SHOWN_CHARS ? '' : secret.slice(0, SHOWN_CREDENTIAL_CHARS);
  return `${shown}…[looks like a credential, ${secret.length} characters]`;
}

const LABEL_CHARS = 10;

function fieldLines(name: string, text: string, options: TextOptions): string[] {
  const label = `  ${name}`.padEnd(LABEL_CHARS);
  const parts = broken(visible(text), widthBehind(LABEL_CHARS, options));
  return parts.map((part, index) => `${index === 0 ? label : ' '.repeat(LABEL_CHARS)}${part}`);
}

const widthBehind = (chars: number, { columns }: TextOptions) =>
  Math.min(Math.max(columns, MIN_COLUMNS), MAX_COLUMNS) - chars - 1;

function inGutter(lines: readonly string[], options: TextOptions): string[] {
  const width = widthBehind(GUTTER.length, options);
  return lines.flatMap((line) => broken(line, width).map((part) => `${GUTTER}${part}`));
}

/** Parts that take at most `width` columns; what may be wide counts as wide. */
function broken(line: string, width: number): string[] {
  const parts: string[] = [];
  let part = '';
  let used = 0;
  for (const character of line) {
    const columns = (character.codePointAt(0) as number) < FIRST_WIDE ? 1 : 2;
    if (used + columns > width) {
      parts.push(part);
      part = '';
      used = 0;
    }
    part += character;
    used += columns;
  }
  return [...parts, part];
}

const FIRST_WIDE = 0x1100;
