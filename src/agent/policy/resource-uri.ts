/*
 * URIs of resources. Guests and models write them, servers take them apart, and patterns have to say the same of them as
 * the server will: so one that two readers could understand differently is refused, and the rest is matched twice, as it
 * is written and in its normal form.
 */

const scheme = /^[A-Za-z][A-Za-z0-9+.-]*:./;
const brokenEncoding = /%(?![0-9A-Fa-f]{2})/;
const encodedAscii = /%[0-7][0-9A-Fa-f]/g;
/** Of a path, a query or what else stands between separators: also where a server puts it into a path of its own. */
const stepUp = /(?:^|[/\\?#&=;:,])\.\.(?:$|[/\\?#&=;:,])/;
const stepNowhere = /[/\\]\.(?:$|[/\\?#])/;

/** What is wrong with a URI that is to be read; null: nothing. */
export function uriProblem(uri: string): string | null {
  if (!scheme.test(uri)) return 'is not a URI: it must begin with a scheme, such as "file:"';
  if (!uri.isWellFormed() || /[\p{Cc}\p{Zl}\p{Zp}\\]/u.test(uri) || uri.trim() !== uri) {
    return 'has a backslash, a control character, or leading or trailing white space';
  }
  if (brokenEncoding.test(uri)) return 'has an invalid percent-encoding';
  const decoded = fullyDecoded(uri);
  if (decoded === null) return 'is percent-encoded too many times';
  if (/\p{Cc}/u.test(decoded)) return 'encodes a control character';
  if (stepUp.test(decoded) || stepNowhere.test(decoded)) return 'has a "." or ".." path segment, possibly encoded';
  return null;
}

/** A URI within a URI is encoded twice, and there may be one in that. */
const MAX_DECODINGS = 4;

/** As a server reads it that decodes more often than it should; null: there is no end to it. */
function fullyDecoded(uri: string): string | null {
  let text = uri;
  for (let round = 0; round < MAX_DECODINGS; round++) {
    const decoded = text.replace(encodedAscii, asciiOf);
    if (decoded === text) return text;
    text = decoded;
  }
  return null;
}

const asciiOf = (code: string) => String.fromCharCode(Number.parseInt(code.slice(1), 16));

const head = /^[^:/?#]*:(?:\/\/[^/?#]*)?/;
const encoded = /%[0-9A-Fa-f]{2}/g;
const unreserved = /[A-Za-z0-9._~-]/;

/** Scheme and host in small letters, nothing encoded that need not be. The same of a pattern: it has no wildcard there. */
export function normalUri(uri: string): string {
  return uri
    .replace(head, (text) => text.toLowerCase())
    .replace(encoded, (code) => (unreserved.test(asciiOf(code)) ? asciiOf(code) : code.toUpperCase()));
}

const variable = /\{[^{}]*\}/g;

/** Whether a pattern and a template can mean the same URI: what stands in braces may become anything. */
export function couldBeMeant(pattern: string, template: string): boolean {
  const open = template.replaceAll('*', '?').replace(variable, '*');
  const [one, other] = [fixedStart(pattern), fixedStart(open)];
  // Almost always this tells, and costs next to nothing.
  if (!one.startsWith(other) && !other.startsWith(one)) return false;
  return overlap(pattern, open);
}

const fixedStart = (pattern: string) => pattern.slice(0, pattern.search(/[*?]|$/));

/** Whether some text matches both, where `*` is any run of characters and `?` is one. */
function overlap(one: string, other: string): boolean {
  // By rows: whether the first i characters of one and the first j of the other can mean the same text.
  let row = [true];
  for (let j = 1; j <= other.length; j++) row[j] = row[j - 1] === true && other[j - 1] === '*';
  for (let i = 1; i <= one.length; i++) {
    const above = row;
    const a = one[i - 1] as string;
    row = [above[0] === true && a === '*'];
    for (let j = 1; j <= other.length; j++) {
      const b = other[j - 1] as string;
      const runs = (a === '*' || b === '*') && (above[j] === true || row[j - 1] === true);
      row[j] = runs || ((a === b || a === '?' || b === '?') && above[j - 1] === true);
    }
  }
  return row[other.length] === true;
}
