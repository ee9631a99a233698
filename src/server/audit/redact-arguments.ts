import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { startOf } from '../../base/text.ts';
import { credentialArguments, looksLikeCredential } from '../records/credentials.ts';
import type { AuditArguments, AuditSink } from './event.ts';
import { CUT, MARK, redactText, redactWholeText, SHOWN_CHARS } from './redact-text.ts';

interface Bounds {
  readonly depth: number;
  readonly keys: number;
  readonly items: number;
  readonly keyChars: number;
  /** Null: texts are not cut. */
  readonly stringChars: number | null;
  /** Of all keys and values together. */
  readonly totalChars: number;
}

/** How much of a call's arguments a line may hold. */
export const ARGUMENT_BOUNDS = {
  depth: 6,
  keys: 32,
  items: 32,
  keyChars: 64,
  stringChars: SHOWN_CHARS,
  totalChars: 8_192,
} as const satisfies Bounds;

/** Where all of it is to be seen: as deep as a walk may go, and as long as a name may be. */
const WHOLE_BOUNDS: Bounds = {
  depth: 256,
  keys: Number.POSITIVE_INFINITY,
  items: Number.POSITIVE_INFINITY,
  keyChars: 1_024,
  stringChars: null,
  totalChars: Number.POSITIVE_INFINITY,
};

/** A longer argument of a command line is looked at as a text only. */
const MAX_WORD_CHARS = 4_096;

const sensitiveWords: ReadonlySet<string> = new Set(
  `password passwd passphrase passcode pass pwd secret token apikey accesskey secretkey privatekey key
   authorization auth bearer credential credentials cookie jwt otp pin cvv ssn signature accesstoken refreshtoken
   idtoken authtoken sessionid connectionstring dsn`.split(/\s+/),
);
/** Endings of names that are written without any sign between their words. */
const sensitiveEnding = /(?:password|passwd|passphrase|secret|token|apikey|credentials?|cookie|authorization)s?$/;

/**
 * A call's arguments for the trail: keys stay, the values of sensitive names and what looks like a credential do not;
 * everything is cut to {@link ARGUMENT_BOUNDS}. A guess, like every such list: who must not keep arguments at all
 * chooses another form. null for what is no object.
 */
export function redactArguments(value: JsonValue | undefined): JsonObject | null {
  return isJsonObject(value) ? new ArgumentCopy(ARGUMENT_BOUNDS).object(value, 1) : null;
}

/** The same of any value, whether it was cut, and uncut where `whole` is said. */
export function redactValue(value: JsonValue, whole: boolean): { readonly value: JsonValue; readonly wasCut: boolean } {
  const copy = new ArgumentCopy(whole ? WHOLE_BOUNDS : ARGUMENT_BOUNDS);
  return { value: copy.any(value), wasCut: copy.wasCut };
}

/** Whether the name of a value says that it is one to keep, and whether the name itself is. */
interface JudgedName {
  readonly sensitive: boolean;
  readonly isCredential: boolean;
}

/** Names of arguments recur with every call of a tool. */
const judgedNames = new Map<string, JudgedName>();
const MAX_JUDGED_NAMES = 1_000;

function judged(name: string): JudgedName {
  const known = judgedNames.get(name);
  if (known !== undefined) return known;
  const found = { sensitive: judgeName(name), isCredential: looksLikeCredential('', name) };
  if (judgedNames.size < MAX_JUDGED_NAMES && name.length <= ARGUMENT_BOUNDS.keyChars) judgedNames.set(name, found);
  return found;
}

/** Whether the name of a value says that it is one to keep. */
export const isSensitiveName = (name: string): boolean => judged(name).sensitive;

function judgeName(name: string): boolean {
  const words = name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '');
  const pairs = words.map((word, index) => word + (words[index + 1] ?? ''));
  if ([...words, ...pairs].some((word) => sensitiveWords.has(word) || sensitiveWords.has(word.replace(/s$/, '')))) {
    return !isCount(words);
  }
  return sensitiveEnding.test(words.at(-1) ?? '');
}

/** `max_tokens`, `key_count`: numbers about things that have a telling name. */
function isCount(words: readonly string[]): boolean {
  return words.some((word) => /^(?:max|min|count|total|num|number|limit|size)$/.test(word));
}

class ArgumentCopy {
  readonly #bounds: Bounds;
  #left: number;
  wasCut = false;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
    this.#left = bounds.totalChars;
  }

  any(value: JsonValue): JsonValue {
    return this.#value(value, 0, false);
  }

  object(value: JsonObject, depth: number): JsonObject {
    const keys = Object.keys(value);
    const named = pairName(value);
    const shown = keys.slice(0, this.#bounds.keys).map((key): [string, JsonValue] => {
      const sensitive = isSensitiveName(key) || (key === 'value' && named !== null && isSensitiveName(named));
      return [this.#spend(this.#key(key)), this.#value(value[key] as JsonValue, depth, sensitive)];
    });
    if (keys.length > shown.length) shown.push([this.#cut(), `${keys.length - shown.length} more keys`]);
    return Object.fromEntries(shown);
  }

  #value(value: JsonValue, depth: number, sensitive: boolean): JsonValue {
    if (value === null || typeof value === 'boolean') return value;
    if (sensitive) return this.#spend(MARK);
    if (this.#left <= 0) return this.#cut();
    if (typeof value === 'string') return this.#spend(this.#text(value));
    if (typeof value === 'number') return value;
    if (depth >= this.#bounds.depth) return this.#cut();
    return Array.isArray(value) ? this.#list(value, depth + 1) : this.object(value, depth + 1);
  }

  #list(value: readonly JsonValue[], depth: number): JsonValue[] {
    const items = value.slice(0, this.#bounds.items);
    // A list may be a command line: the word after --token is a token.
    const words = items.map((item) => (typeof item === 'string' && item.length <= MAX_WORD_CHARS ? item : ''));
    const credentials = new Set(credentialArguments(words));
    const shown = items.map((item, index) => this.#value(item, depth, credentials.has(index)));
    return value.length > items.length ? [...shown, `${this.#cut()}${value.length - items.length} more`] : shown;
  }

  #text(text: string): string {
    const { stringChars } = this.#bounds;
    if (stringChars === null) return redactWholeText(text);
    if (text.length > stringChars) this.wasCut = true;
    return redactText(text);
  }

  #key(key: string): string {
    const start = startOf(key, this.#bounds.keyChars);
    if (start !== key) this.wasCut = true;
    return judged(start).isCredential ? MARK : start;
  }

  #cut(): string {
    this.wasCut = true;
    return CUT;
  }

  #spend(text: string): string {
    this.#left -= text.length;
    return text;
  }
}

/** `{"name": "Authorization", "value": …}`, as headers and variables are often written. */
function pairName(value: JsonObject): string | null {
  const name = value.name ?? value.key;
  return typeof name === 'string' ? name : null;
}

/** Arguments of a call as the audit log of its run shows them; undefined arguments are not JSON. */
export function shownArguments(audit: AuditSink, args: JsonValue | undefined): AuditArguments {
  return (audit.showArguments ?? redactArguments)(args);
}
