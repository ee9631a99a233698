import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import type { AuditArguments, AuditSink } from './event.ts';
import { redactArguments } from './redact-arguments.ts';

/** Arguments that are shown when their line is made. Nobody else finds the text in it, by whatever way they look. */
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

/** Of a call whose arguments are this JSON text, for its `tool_call.started`: as late as the trail can. */
export function argumentsFor(trail: AuditSink, text: string): AuditArguments {
  if (trail.keepArguments) return trail.keepArguments(text);
  return (trail.showArguments ?? redactArguments)(parseJson(text));
}
