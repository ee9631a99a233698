import { startOf } from '../../base/text.ts';
import { looksLikeCredential, urlHasCredential } from '../records/credentials.ts';

export const MARK = '[redacted]';
export const CUT = '…';

/** How much of a text is shown where texts are cut. */
export const SHOWN_CHARS = 256;
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
