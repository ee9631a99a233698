import { Listeners } from '../../base/listeners.ts';

/** Takes secrets out of a text. */
export type Redact = (text: string) => string;

const REDACTED = '[redacted]';
/** A shorter value ("text", "8080") is more likely a word of an answer than a secret, and is only known where it belongs. */
export const MIN_SECRET_CHARS = 8;
/** In the messages of the one server that has it, a shorter one counts too; "1" and "none" never do. */
const MIN_SCOPED_CHARS = 5;
/** From this length on an encoded form is long enough not to be met by chance. */
const MIN_ENCODED_CHARS = 6;
/** Of records: the one that was resolved longest ago is forgotten for a new one. Each costs every text a scan. */
const MAX_RECORD_SECRETS = 1_000;
/** A key of many lines has about fifty; what has more (a bundle of certificates) is known as a whole and by its first lines. */
const MAX_LINES = 128;

interface Entry {
  readonly length: number;
  readonly pattern: RegExp;
  /** Every text that the pattern stands for. */
  readonly forms: readonly string[];
}

/**
 * The secrets of a process, known from the moment they are resolved. Everything that leaves the process as text (logs,
 * the trail, errors, results of tools, `--json`, a crash) goes through it once, at the border.
 */
export class Redactor {
  /** What the process itself holds: keys of models, tokens. Never forgotten. */
  readonly #own = new Map<string, Entry>();
  readonly #ofRecords = new Map<string, Entry>();
  readonly #forgetting = new Listeners<void>();
  /** Longest first, so that a secret that contains another one leaves nothing of itself behind. */
  #ordered: Entry[] = [];
  /** All forms, by their first character; made when a text that comes in pieces needs it. */
  #formsByFirst: Map<string, string[]> | null = null;

  /** A value of several lines is known line by line as well: a log is cut into lines. It is one secret all the same. */
  add(secret: string): void {
    if (this.#own.has(secret)) return;
    const entry = entryOf(secret);
    if (entry === null) return;
    this.#own.set(secret, entry);
    this.#sort();
  }

  /** One that a record of a registry refers to: there may be any number of them over the life of a process. */
  addOfRecord(secret: string): void {
    if (this.#own.has(secret)) return;
    const entry = this.#ofRecords.get(secret) ?? entryOf(secret);
    if (entry === null) return;
    this.#ofRecords.delete(secret);
    this.#ofRecords.set(secret, entry);
    this.#sort();
    if (this.#ofRecords.size <= MAX_RECORD_SECRETS) return;
    this.#forgetting.tell();
    this.#ofRecords.delete(this.#ofRecords.keys().next().value as string);
    this.#sort();
  }

  /** For who keeps something to redact it later: called while the secret that is about to be forgotten is still known. */
  beforeForgetting(listener: () => void): () => void {
    return this.#forgetting.add(listener);
  }

  readonly redact: Redact = (text) => {
    let clean = text;
    for (const { pattern } of this.#ordered) clean = clean.replace(pattern, REDACTED);
    return clean;
  };

  /**
   * Of a text that goes on: up to where it can be redacted and handed out. What follows may be the beginning of a secret
   * whose rest has not come.
   */
  settledLength(text: string): number {
    const forms = this.#firstCharacters();
    let at = 0;
    while (at < text.length && !mayBegin(forms.get(text[at] as string), text, at)) at += 1;
    return at === text.length ? at : this.#beforeWhole(text, at);
  }

  /** Never in the middle of a whole secret: its first part alone would not be known for one. */
  #beforeWhole(text: string, cut: number): number {
    for (const { pattern } of this.#ordered) {
      for (const { index, 0: found } of text.matchAll(pattern)) {
        if (index < cut && index + found.length > cut) return this.#beforeWhole(text, index);
      }
    }
    return cut;
  }

  #firstCharacters(): Map<string, string[]> {
    if (this.#formsByFirst !== null) return this.#formsByFirst;
    const forms = this.#ordered.flatMap((entry) => entry.forms);
    this.#formsByFirst = Map.groupBy(forms, (form) => form[0] as string);
    return this.#formsByFirst;
  }

  /** Also takes out these, what is too short or too ordinary to be known everywhere included, for as long as it is used. */
  scoped(secrets: Iterable<string>, minChars = MIN_SCOPED_CHARS): Redact {
    const parts = [...secrets].flatMap((secret) => partsOf(secret, minChars));
    if (parts.length === 0) return this.redact;
    const pattern = patternOf(parts);
    // First: the whole of one of these may contain a secret that everybody knows.
    return (text) => this.redact(text.replace(pattern, REDACTED));
  }

  /** JSON text of the value without any secret. */
  json(value: unknown): string {
    return this.#cleanJson(JSON.stringify(value) ?? 'null');
  }

  /** The same of many values that are JSON texts already: all of them together cost each secret one scan. */
  jsonTexts(texts: readonly string[]): readonly string[] {
    if (this.#ordered.length === 0) return texts;
    const all = texts.join('\n');
    return this.redact(all) === all ? texts : texts.map((text) => this.#cleanJson(text));
  }

  /** The value itself, unless it holds a secret; `source` is the text that it was parsed from, where there is one. */
  clean<Value>(value: Value, source?: string): Value {
    if (this.#ordered.length === 0) return value;
    const text = source !== undefined && isSpelledOut(source) ? source : (JSON.stringify(value) ?? '');
    return this.redact(text) === text ? value : redactStrings(value, this.redact);
  }

  /** Only a value that holds a secret is walked. */
  #cleanJson(text: string): string {
    return this.redact(text) === text ? text : JSON.stringify(redactStrings<unknown>(JSON.parse(text), this.redact));
  }

  #sort(): void {
    this.#ordered = [...this.#own.values(), ...this.#ofRecords.values()].sort((a, b) => b.length - a.length);
    this.#formsByFirst = null;
  }
}

/**
 * Whether every string of a JSON text is written as `JSON.stringify` would write it: no character is escaped that need
 * not be. Then what is not in the text is not in its value either.
 */
function isSpelledOut(json: string): boolean {
  return !json.includes('\\u') && !json.includes('\\/');
}

/** Whether the text from there on is the beginning of a form, and not yet all of it. */
function mayBegin(forms: readonly string[] | undefined, text: string, at: number): boolean {
  const length = text.length - at;
  return forms?.some((form) => form.length > length && text.endsWith(form.slice(0, length))) ?? false;
}

/** The one of this process. */
export const knownSecrets = new Redactor();

/** Every string inside a value made of JSON, keys included, whatever its depth. The value itself where nothing is taken out. */
export function redactStrings<Value>(value: Value, redact: Redact): Value {
  if (!holdsSecret(value, redact)) return value;
  const clean = (item: unknown): unknown => {
    if (typeof item === 'string') return redact(item);
    if (Array.isArray(item)) return item.map(clean);
    if (typeof item !== 'object' || item === null) return item;
    return Object.fromEntries(Object.entries(item).map(([key, inner]) => [redact(key), clean(inner)]));
  };
  return clean(value) as Value;
}

function holdsSecret(item: unknown, redact: Redact): boolean {
  if (typeof item === 'string') return redact(item) !== item;
  if (typeof item !== 'object' || item === null) return false;
  if (Array.isArray(item)) return item.some((inner) => holdsSecret(inner, redact));
  for (const key in item) {
    if (redact(key) !== key || holdsSecret((item as Record<string, unknown>)[key], redact)) return true;
  }
  return false;
}

/** Null where nothing of it is long enough to be known everywhere. */
function entryOf(secret: string): Entry | null {
  const parts = partsOf(secret, MIN_SECRET_CHARS);
  if (parts.length === 0) return null;
  return { length: secret.length, pattern: patternOf(parts), forms: parts.flatMap(formsOf) };
}

function partsOf(secret: string, minChars: number): string[] {
  const lines = secret.split(/\r?\n/, MAX_LINES).map((line) => line.trim());
  const parts = new Set([secret, secret.trim(), ...lines]);
  return [...parts].filter((part) => part.length >= minChars);
}

function patternOf(parts: readonly string[]): RegExp {
  const forms = parts.flatMap(formsOf).sort((a, b) => b.length - a.length);
  return new RegExp(forms.map((form) => form.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|'), 'g');
}

/** How a value may look in a URL, in JSON, and inside something that was encoded as base64. */
function formsOf(value: string): string[] {
  const json = JSON.stringify(value).slice(1, -1);
  const forms = new Set([value, json, asciiJson(json)]);
  // A lone surrogate cannot be encoded; such a value has no form in a URL.
  if (value.isWellFormed()) {
    for (const encoded of [encodeURIComponent(value), encodeURI(value)]) {
      forms.add(encoded);
      forms.add(encoded.replaceAll(/%[0-9A-F]{2}/g, (byte) => byte.toLowerCase()));
    }
    forms.add(new URLSearchParams([['', value]]).toString().slice(1));
  }
  if (value.length >= MIN_ENCODED_CHARS) {
    for (const text of [Buffer.from(value).toString('base64'), ...base64Forms(value)]) {
      forms.add(text);
      forms.add(text.replaceAll('+', '-').replaceAll('/', '_'));
    }
  }
  return [...forms];
}

/** Three of them, by where the value begins in a longer text; characters that its neighbours decide are left out. */
function base64Forms(value: string): string[] {
  const bytes = Buffer.from(value);
  return [0, 1, 2].map((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64');
    return text.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6));
  });
}

function asciiJson(json: string): string {
  return json.replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
