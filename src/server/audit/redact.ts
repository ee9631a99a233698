import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { startOf } from '../../base/text.ts';
import { credentialArguments, looksLikeCredential, urlHasCredential } from '../records/credentials.ts';
import type { AuditArguments, AuditSink } from './event.ts';

/** How much of a text is shown where texts are cut. */
export const SHOWN_CHARS = 256;

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

export const MARK = '[redacted]';
export const CUT = '…';

/** Of a longer text only this much is looked at, and less is shown. */
const SCANNED_CHARS = 4 * SHOWN_CHARS;

/** `password=…`, `"token": "…"`, `Authorization: Bearer …` inside a text. */
const assignment =
  /((?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|cookie|credentials?)["']?\s*[=:]\s*["']?)((?:bearer|basic|token|digest)\s+)?[^\s"'&;,]+/gi;
/** `--api-key …` */
const flag =
  /(--?[a-z-]*(?:password|passwd|secret|token|api-?key|access-?key|private-?key|credentials?)\s+)[^\s-]\S*/gi;
const scheme = /\b((?:bearer|basic)\s+)([\w.~+/=-]{6,})/gi;
const passwordInUrl = /([a-z][a-z0-9+.-]*:\/\/[^\s:/?#@]*:)[^\s/?#@]+(?=@)/gi;
const privateKey = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;
const privateKeyBlock =
  /-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]|-(?!----END ))*(?:-----END [A-Z ]*PRIVATE KEY-----)?/g;
const opaquePart = /[A-Za-z0-9+/_=.-]{12,}/g;
/**
 * What each of these, and every sign of a credential in `looksLikeCredential` and `urlHasCredential`, has something of. In
 * ordinary words there is nothing of it, and most arguments are ordinary words: one look for all, instead of one for each.
 */
export const suspicious =
  /[=:$]|pass|pwd|secret|token|key|credential|authorization|cookie|bearer|basic|-----|[A-Za-z0-9+/_=.-]{11,}/i;

/** A run of so many of these characters may be an opaque part. */
const OPAQUE_RUN = 11;
/** By the code of a character: whether it may stand in an opaque part, or is suspicious by itself. */
const [OPAQUE, SIGN] = [1, 2];
const kinds = new Uint8Array(128);
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_=.-') {
  kinds[character.charCodeAt(0)] = OPAQUE;
}
for (const character of '=:$') kinds[character.charCodeAt(0)] = SIGN;

/**
 * Three characters as one number, by five bits of each: letters of either case are the same. Others may fall together with
 * them: that only costs a look.
 */
const threeOf = (last: number, code: number) => ((last << 5) | (code & 0x1f)) & 0x7fff;
/** By that number, a bit each: whether a word begins so that `suspicious` looks for. */
const beginnings = new Uint8Array(2 ** 15 / 8);
for (const three of ['pas', 'pwd', 'sec', 'tok', 'key', 'cre', 'aut', 'coo', 'bea', 'bas', '---']) {
  const number = [...three].reduce((last, character) => threeOf(last, character.charCodeAt(0)), 0);
  beginnings[number >> 3] = (beginnings[number >> 3] as number) | (1 << (number & 7));
}

/**
 * Whether a text has nothing that `suspicious` finds, told by one walk over it; false where only a look can tell. Almost
 * every argument of every call is asked about, and the look alone takes ten times as long.
 */
export function isOrdinary(text: string): boolean {
  let [run, last] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const kind = code < 128 ? (kinds[code] as number) : 0;
    if (kind === SIGN) return false;
    run = kind === OPAQUE ? run + 1 : 0;
    if (run === OPAQUE_RUN) return false;
    last = threeOf(last, code);
    if (((beginnings[last >> 3] as number) & (1 << (last & 7))) !== 0) return false;
  }
  return true;
}

/** Takes credentials out of a text, and cuts it. */
export function redactText(text: string): string {
  const window = text.length > SCANNED_CHARS ? text.slice(0, SCANNED_CHARS).replace(/\S+$/, '') : text;
  // A part at the cut may be the first half of a secret: without a word to end at, nothing is shown.
  const seen = window === '' && text !== '' ? MARK : clean(window);
  if (text.length <= SHOWN_CHARS && seen.length <= SHOWN_CHARS) return seen;
  return `${startOf(seen, SHOWN_CHARS)}${CUT}(${text.length})`;
}

/**
 * Takes credentials out of a text and leaves the rest, however long it is. It is looked at in pieces that end where a
 * value ends, for the time that a look takes grows faster than what is looked at; a word as long as a piece is no word
 * that anybody reads, and may be a secret whole.
 */
export function redactWholeText(text: string): string {
  const rest = text.replaceAll(privateKeyBlock, MARK);
  let shown = '';
  for (let at = 0; at < rest.length; ) {
    const end = pieceEnd(rest, at);
    shown += end - at > SCANNED_CHARS ? `${MARK}(${end - at})` : clean(rest.slice(at, end));
    at = end;
  }
  return shown;
}

/** Where a piece ends: after a line if one fits, else after a word, and after the whole of a word that does not. */
function pieceEnd(text: string, at: number): number {
  const most = at + SCANNED_CHARS;
  if (text.length <= most) return text.length;
  const line = text.lastIndexOf('\n', most - 1);
  if (line >= at) return line + 1;
  for (let end = most; end > at; end--) if (isBreak(text.charAt(end - 1))) return end;
  for (let end = most; end < text.length; end++) if (isBreak(text.charAt(end))) return end;
  return text.length;
}

const isBreak = (character: string) => /[\s"'&;,]/.test(character);

function clean(text: string): string {
  if (isOrdinary(text) || !suspicious.test(text)) return text;
  if (privateKey.test(text) || (!/\s/.test(text) && looksLikeCredential('', text))) return MARK;
  const parts = text
    .replaceAll(passwordInUrl, `$1${MARK}`)
    .replaceAll(assignment, (_, name: string, kind: string | undefined) => `${name}${kind ?? ''}${MARK}`)
    .replaceAll(flag, `$1${MARK}`)
    .replaceAll(scheme, `$1${MARK}`)
    .replaceAll(opaquePart, (part) => (looksLikeCredential('', part) ? MARK : part));
  return urlHasCredential(parts.replaceAll(MARK, '')) ? MARK : parts;
}
