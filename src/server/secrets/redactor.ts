/**
 * Redactor: removes known secrets from text that leaves the process (logs, audit log, errors, tool results, `--json`, a
 * crash report). Each output path redacts once, at its border.
 *
 * - A secret is registered when it is resolved. Secrets of the process are retained; of the secrets of records the least
 *   recently used is evicted above a limit, because each one costs a scan of every text.
 * - Encoded forms (URL, JSON, base64) and single lines of a secret are redacted as well.
 * - Short values are redacted only in the scope of the server that uses them ({@link Redactor.scoped}).
 * - Secrets that are split by other text, or encoded in another way, are not found.
 */
import { Listeners } from '../../base/listeners.ts';

/** Replaces secrets in a text. */
export type Redact = (text: string) => string;

const REDACTED = '[redacted]';
/** A shorter value ("text", "8080") is more likely an ordinary word; it is redacted only in its scope. */
export const MIN_SECRET_CHARS = 8;
/** Minimum within the scope of one server; "1" and "none" are never redacted. */
const MIN_SCOPED_CHARS = 5;
/** Encoded forms of shorter values would match by chance. */
const MIN_ENCODED_CHARS = 6;
const MAX_RECORD_SECRETS = 1_000;
/** A private key has about fifty lines. Of a longer value (a bundle of certificates) only the first lines are redacted singly. */
const MAX_LINES = 128;

interface Entry {
  readonly length: number;
  readonly pattern: RegExp;
  /** Every text that the pattern matches. */
  readonly forms: readonly string[];
}

export class Redactor {
  /** Secrets of the process: model keys, tokens. Never evicted. */
  readonly #own = new Map<string, Entry>();
  readonly #ofRecords = new Map<string, Entry>();
  readonly #evicting = new Listeners<void>();
  /** Longest first, because one secret may contain another. */
  #ordered: Entry[] = [];
  /** All forms by their first character; built for the first streamed text. */
  #formsByFirst: Map<string, string[]> | null = null;

  /** Registers a secret of the process. */
  add(secret: string): void {
    if (this.#own.has(secret)) return;
    const entry = entryOf(secret);
    if (entry === null) return;
    this.#own.set(secret, entry);
    this.#sort();
  }

  /** Registers a secret that a record refers to. There may be any number of them over the life of a process. */
  addOfRecord(secret: string): void {
    if (this.#own.has(secret)) return;
    const entry = this.#ofRecords.get(secret) ?? entryOf(secret);
    if (entry === null) return;
    this.#ofRecords.delete(secret);
    this.#ofRecords.set(secret, entry);
    this.#sort();
    if (this.#ofRecords.size <= MAX_RECORD_SECRETS) return;
    this.#evicting.notify();
    this.#ofRecords.delete(this.#ofRecords.keys().next().value as string);
    this.#sort();
  }

  /** Notifies holders of text that is not yet redacted: the secret is still known during the call. */
  beforeEviction(listener: () => void): () => void {
    return this.#evicting.add(listener);
  }

  readonly redact: Redact = (text) => {
    let clean = text;
    for (const { pattern } of this.#ordered) clean = clean.replace(pattern, REDACTED);
    return clean;
  };

  /**
   * For streamed text: the length that can be redacted and emitted. The rest may be the beginning of a secret that is not
   * complete yet.
   */
  settledLength(text: string): number {
    const forms = this.#firstCharacters();
    let at = 0;
    while (at < text.length && !mayBegin(forms.get(text[at] as string), text, at)) at += 1;
    return at === text.length ? at : this.#beforeWhole(text, at);
  }

  /** Moves the cut before a complete secret: its first part alone would not match. */
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

  /** A redactor that also replaces these values, shorter ones included. */
  scoped(secrets: Iterable<string>, minChars = MIN_SCOPED_CHARS): Redact {
    const parts = [...secrets].flatMap((secret) => partsOf(secret, minChars));
    if (parts.length === 0) return this.redact;
    const pattern = patternOf(parts);
    // These first: one of them may contain a registered secret.
    return (text) => this.redact(text.replace(pattern, REDACTED));
  }

  /** JSON text of the value without any secret. */
  json(value: unknown): string {
    return this.#cleanJson(JSON.stringify(value) ?? 'null');
  }

  /** Redacts many JSON texts; each secret scans all of them at once. */
  jsonTexts(texts: readonly string[]): readonly string[] {
    if (this.#ordered.length === 0) return texts;
    const all = texts.join('\n');
    return this.redact(all) === all ? texts : texts.map((text) => this.#cleanJson(text));
  }

  /** The value itself, unless it holds a secret. `source`: the JSON text that the value was parsed from, if any. */
  clean<Value>(value: Value, source?: string): Value {
    if (this.#ordered.length === 0) return value;
    const text = source !== undefined && isSpelledOut(source) ? source : (JSON.stringify(value) ?? '');
    return this.redact(text) === text ? value : redactStrings(value, this.redact);
  }

  #cleanJson(text: string): string {
    return this.redact(text) === text ? text : JSON.stringify(redactStrings<unknown>(JSON.parse(text), this.redact));
  }

  #sort(): void {
    this.#ordered = [...this.#own.values(), ...this.#ofRecords.values()].sort((a, b) => b.length - a.length);
    this.#formsByFirst = null;
  }
}

/**
 * Whether a JSON text has no unnecessary escapes. Then a secret that is not in the text is not in the parsed value
 * either.
 */
function isSpelledOut(json: string): boolean {
  return !json.includes('\\u') && !json.includes('\\/');
}

/** Whether the text from `at` on is an incomplete form. */
function mayBegin(forms: readonly string[] | undefined, text: string, at: number): boolean {
  const length = text.length - at;
  return forms?.some((form) => form.length > length && text.endsWith(form.slice(0, length))) ?? false;
}

/** The redactor of this process. */
export const knownSecrets = new Redactor();

/** Redacts all strings in a JSON value, keys included. Returns the value itself if nothing changes. */
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

/** Null: no part of the secret is long enough. */
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

/** The forms of a value in a URL, in JSON, and within base64. */
function formsOf(value: string): string[] {
  const json = JSON.stringify(value).slice(1, -1);
  const forms = new Set([value, json, asciiJson(json)]);
  // A lone surrogate has no URL encoding.
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

/** One form for each offset of the value in a longer text, without the characters that depend on its neighbours. */
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
