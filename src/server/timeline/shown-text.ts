import { type JsonValue, parseJson, tooDeepAt } from '../../base/json.ts';
import { startOf } from '../../base/text.ts';
import { redactText, redactValue, redactWholeText } from '../audit/redact.ts';

/** A text of a run as people are shown it: what looks like a credential is out of it. */
export interface ShownText {
  readonly text: string;
  /** How many characters the whole of it has, where something was cut; null: nothing was. */
  readonly cut_from: number | null;
}

/** Makes texts fit to be shown, cut or whole. */
export type ShowText = (text: string) => ShownText;

/** How much of a text is shown where texts are cut. */
export const SHOWN_CHARS = 1_000;
/** Deeper JSON is looked at as the text it is. */
const MAX_DEPTH = 200;
const LOOKS_LIKE_JSON = /^\s*[[{]/;

/** Masked like the arguments in the audit trail. `whole`: nothing is cut. */
export function textShower(whole: boolean): ShowText {
  return (text) => {
    const value = LOOKS_LIKE_JSON.test(text) && tooDeepAt(text, MAX_DEPTH) === null ? parseJson(text) : undefined;
    return value === undefined ? shownPlain(text, whole) : shownJson(text, value, whole);
  };
}

function shownJson(text: string, value: JsonValue, whole: boolean): ShownText {
  const masked = redactValue(value, whole);
  const shown = JSON.stringify(masked.value);
  if (whole) return { text: shown, cut_from: null };
  const isCut = masked.wasCut || shown.length > SHOWN_CHARS;
  return { text: startOf(shown, SHOWN_CHARS), cut_from: isCut ? text.length : null };
}

function shownPlain(text: string, whole: boolean): ShownText {
  if (whole || text.length <= SHOWN_CHARS) return { text: redactWholeText(text), cut_from: null };
  // The last word may be the first half of a secret.
  const start = startOf(text, SHOWN_CHARS);
  const words = start.replace(/\S+$/, '');
  return { text: words === '' ? redactText(text) : redactWholeText(words), cut_from: text.length };
}
