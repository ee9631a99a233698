import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { startOf } from '../../base/text.ts';
import { looksLikeCredential } from '../../server/records/credentials.ts';
import type { ToolDefinition } from '../policy/definition-hash.ts';
import type { DefinitionChange } from './request.ts';

/*
 * The arguments of a call as a person sees them who has to decide about it: enough to know what would be done, and of a
 * credential enough to know which one it is.
 */

const MAX_STRING_CHARS = 240;
const STRING_HEAD_CHARS = 160;
const STRING_TAIL_CHARS = 60;
const MAX_DEPTH = 8;
const SHOWN_CREDENTIAL_CHARS = 4;
/** Of a shorter one nothing is shown: its beginning would be most of it. */
const MIN_PARTLY_SHOWN_CHARS = 16;

export interface ShownArguments {
  readonly value: JsonObject;
  /** Whether something was left out or masked. */
  readonly shortened: boolean;
}

export function shortenArguments(args: JsonObject): ShownArguments {
  const shortener = new Shortener();
  const value = shortener.shorten('', args, 0) as JsonObject;
  return { value, shortened: shortener.shortened };
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

/** A server that rewrites everything is described well enough by the first of it. */
export const MAX_DEFINITION_CHANGES = 50;
const MAX_DEFINITION_DEPTH = 32;

/** What is different, in the order of the fields. */
export function definitionChanges(before: ToolDefinition, after: ToolDefinition): readonly DefinitionChange[] {
  const changes: DefinitionChange[] = [];
  for (const field of ['name', 'description', 'annotations', 'inputSchema', 'outputSchema'] as const) {
    compare(before[field], after[field], field, MAX_DEFINITION_DEPTH, changes);
  }
  return changes.slice(0, MAX_DEFINITION_CHANGES);
}

function compare(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  path: string,
  depth: number,
  changes: DefinitionChange[],
): void {
  if (changes.length >= MAX_DEFINITION_CHANGES || before === after) return;
  if (depth > 0 && isJsonObject(before) && isJsonObject(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const own = (side: typeof before) => (Object.hasOwn(side, key) ? side[key] : undefined);
      compare(own(before), own(after), `${path}.${key}`, depth - 1, changes);
    }
    return;
  }
  if (text(before) !== text(after)) changes.push({ path, before, after });
}

const text = (value: JsonValue | undefined) => (value === undefined ? undefined : canonicalJson(value));
