import { canonicalJson, isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import { startOf } from '../../base/text.ts';
import type { ArgumentForm } from '../../config/audit.ts';
import type { AuditArguments, AuditSink } from './event.ts';
import { ARGUMENT_BOUNDS, redactArguments } from './redact.ts';

const CUT = '…';

/** `sha256` gives the digest of a text as hex; it is asked for by that form only. */
export function argumentsShown(
  form: ArgumentForm,
  sha256: (text: string) => string,
): NonNullable<AuditSink['showArguments']> {
  switch (form) {
    case 'redacted':
      return redactArguments;
    case 'shape':
      return shapeOfArguments;
    case 'none':
      return () => null;
    case 'sha256':
      return (args) => hashed(args, sha256);
  }
}

/** Which keys there are and how large each value is. */
export function shapeOfArguments(args: JsonValue | undefined): JsonObject | null {
  if (!isJsonObject(args)) return null;
  const entries = Object.entries(args).slice(0, ARGUMENT_BOUNDS.keys);
  return Object.fromEntries(entries.map(([key, item]) => [startOf(key, ARGUMENT_BOUNDS.keyChars), shape(item)]));
}

function shape(value: JsonValue): string {
  if (typeof value === 'string') return `string(${value.length})`;
  if (Array.isArray(value)) return `array(${value.length})`;
  if (isJsonObject(value)) return `object(${Object.keys(value).length})`;
  return value === null ? 'null' : typeof value;
}

/** The same arguments in another order or spelling have the same digest. */
function hashed(args: JsonValue | undefined, sha256: (text: string) => string): AuditArguments {
  if (!isJsonObject(args)) return null;
  try {
    return `sha256:${sha256(canonicalJson(args))}`;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return null; // nested without end: such a call is refused, and its arguments have no canonical form
  }
}

/** The first of them, as far as they fit; of the others only the names. */
export function cutArguments(args: AuditArguments, maxChars: number): AuditArguments {
  if (!isJsonObject(args)) return args;
  const text = JSON.stringify(args);
  if (text.length <= maxChars) return args;
  let left = maxChars;
  const kept = Object.entries(args).flatMap(([key, value]): [string, JsonValue][] => {
    const full = key.length + JSON.stringify(value).length;
    const shown = full <= left ? value : CUT;
    left -= shown === CUT ? key.length + CUT.length : full;
    return left >= 0 ? [[key, shown]] : [];
  });
  return { ...Object.fromEntries(kept), [CUT]: `cut, ${text.length} characters` };
}

/** Arguments that are rendered when their line is written. The text is private: no inspection or serialization shows it. */
class KeptArguments {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  static textOf(args: object): string | null {
    return #text in args ? args.#text : null;
  }
}

export const keepArguments = (text: string): AuditArguments => new KeptArguments(text) as unknown as JsonObject;

/** The text that {@link keepArguments} was given; null: these are shown already. */
export function textKept(args: AuditArguments): string | null {
  return isJsonObject(args) ? KeptArguments.textOf(args) : null;
}

/** Arguments of a call, from their JSON text, for its `tool_call.started`; rendered when the audit line is written. */
export function argumentsFor(trail: AuditSink, text: string): AuditArguments {
  if (trail.keepArguments) return trail.keepArguments(text);
  return (trail.showArguments ?? redactArguments)(parseJson(text));
}
