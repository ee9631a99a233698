/** What stands before and after the first separator, as in `NAME=VALUE`; null after it where there is none. */
export function splitOnce(text: string, separator: string): [before: string, after: string | null] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + separator.length)];
}
