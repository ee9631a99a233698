import { startOf } from '../base/cut-text.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { credentialArguments, looksLikeCredential, urlHasCredential } from '../protocol/record-credentials.ts';

const MARK = '[redacted]';
const CUT = '…';

/** How much of a call's arguments a line may hold. */
export const ARGUMENT_BOUNDS = {
  depth: 6,
  keys: 32,
  items: 32,
  keyChars: 64,
  stringChars: 256,
  /** Of all keys and values together. */
  totalChars: 8_192,
} as const;

/** Of a longer text only this much is looked at, and less is shown. */
const SCANNED_CHARS = 4 * ARGUMENT_BOUNDS.stringChars;

const sensitiveWords: ReadonlySet<string> = new Set(
  `password passwd passphrase passcode pass pwd secret token apikey accesskey secretkey privatekey key
   authorization auth bearer credential credentials cookie jwt otp pin cvv ssn signature accesstoken refreshtoken
   idtoken authtoken sessionid connectionstring dsn`.split(/\s+/),
);
/** Endings of names that are written without any sign between their words. */
const sensitiveEnding = /(?:password|passwd|passphrase|secret|token|apikey|credentials?|cookie|authorization)s?$/;

/** `password=…`, `"token": "…"`, `Authorization: Bearer …` inside a text. */
const assignment =
  /((?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|cookie|credentials?)["']?\s*[=:]\s*["']?)((?:bearer|basic|token|digest)\s+)?[^\s"'&;,]+/gi;
/** `--api-key …` */
const flag =
  /(--?[a-z-]*(?:password|passwd|secret|token|api-?key|access-?key|private-?key|credentials?)\s+)[^\s-]\S*/gi;
const scheme = /\b((?:bearer|basic)\s+)([\w.~+/=-]{6,})/gi;
const passwordInUrl = /([a-z][a-z0-9+.-]*:\/\/[^\s:/?#@]*:)[^\s/?#@]+(?=@)/gi;
const privateKey = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;
const opaquePart = /[A-Za-z0-9+/_=.-]{12,}/g;

/**
 * A call's arguments for the trail: keys stay, the values of sensitive names and what looks like a credential do not;
 * everything is cut to {@link ARGUMENT_BOUNDS}. A guess, like every such list: who must not keep arguments at all
 * chooses another form. null for what is no object.
 */
export function redactArguments(value: JsonValue | undefined): JsonObject | null {
  return isJsonObject(value) ? new ArgumentCopy().object(value, 1) : null;
}

/** Names of arguments recur with every call of a tool. */
const judgedNames = new Map<string, boolean>();
const MAX_JUDGED_NAMES = 1_000;

/** Whether the name of a value says that it is one to keep. */
export function isSensitiveName(name: string): boolean {
  const judged = judgedNames.get(name);
  if (judged !== undefined) return judged;
  const sensitive = judgeName(name);
  if (judgedNames.size < MAX_JUDGED_NAMES && name.length <= ARGUMENT_BOUNDS.keyChars) judgedNames.set(name, sensitive);
  return sensitive;
}

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

/** Takes credentials out of a text, and cuts it. */
export function redactText(text: string): string {
  const window = text.length > SCANNED_CHARS ? text.slice(0, SCANNED_CHARS).replace(/\S+$/, '') : text;
  // A part at the cut may be the first half of a secret: without a word to end at, nothing is shown.
  const seen = window === '' && text !== '' ? MARK : clean(window);
  if (text.length <= ARGUMENT_BOUNDS.stringChars && seen.length <= ARGUMENT_BOUNDS.stringChars) return seen;
  return `${startOf(seen, ARGUMENT_BOUNDS.stringChars)}${CUT}(${text.length})`;
}

function clean(text: string): string {
  if (privateKey.test(text) || (!/\s/.test(text) && looksLikeCredential('', text))) return MARK;
  const parts = text
    .replaceAll(passwordInUrl, `$1${MARK}`)
    .replaceAll(assignment, (_, name: string, kind: string | undefined) => `${name}${kind ?? ''}${MARK}`)
    .replaceAll(flag, `$1${MARK}`)
    .replaceAll(scheme, `$1${MARK}`)
    .replaceAll(opaquePart, (part) => (looksLikeCredential('', part) ? MARK : part));
  return urlHasCredential(parts.replaceAll(MARK, '')) ? MARK : parts;
}

class ArgumentCopy {
  #left: number = ARGUMENT_BOUNDS.totalChars;

  object(value: JsonObject, depth: number): JsonObject {
    const keys = Object.keys(value);
    const named = pairName(value);
    const shown = keys.slice(0, ARGUMENT_BOUNDS.keys).map((key): [string, JsonValue] => {
      const sensitive = isSensitiveName(key) || (key === 'value' && named !== null && isSensitiveName(named));
      return [this.#spend(redactKey(key)), this.#value(value[key] as JsonValue, depth, sensitive)];
    });
    if (keys.length > shown.length) shown.push([CUT, `${keys.length - shown.length} more keys`]);
    return Object.fromEntries(shown);
  }

  #value(value: JsonValue, depth: number, sensitive: boolean): JsonValue {
    if (value === null || typeof value === 'boolean') return value;
    if (sensitive) return this.#spend(MARK);
    if (this.#left <= 0) return CUT;
    if (typeof value === 'string') return this.#spend(redactText(value));
    if (typeof value === 'number') return value;
    if (depth >= ARGUMENT_BOUNDS.depth) return CUT;
    return Array.isArray(value) ? this.#list(value, depth + 1) : this.object(value, depth + 1);
  }

  #list(value: readonly JsonValue[], depth: number): JsonValue[] {
    const items = value.slice(0, ARGUMENT_BOUNDS.items);
    // A list may be a command line: the word after --token is a token.
    const credentials = new Set(credentialArguments(items.map((item) => (typeof item === 'string' ? item : ''))));
    const shown = items.map((item, index) => this.#value(item, depth, credentials.has(index)));
    return value.length > items.length ? [...shown, `${CUT}${value.length - items.length} more`] : shown;
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

function redactKey(key: string): string {
  return looksLikeCredential('', key) ? MARK : startOf(key, ARGUMENT_BOUNDS.keyChars);
}
