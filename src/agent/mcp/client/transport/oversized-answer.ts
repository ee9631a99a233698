import type { OversizedLine } from './line-framer.ts';

const version = String.raw`"jsonrpc"\s*:\s*"2\.0"\s*`;
const id = String.raw`"id"\s*:\s*(\d+)\s*`;
const answer = String.raw`"(?:result|error)"\s*:`;
const idBeforeAnswer = new RegExp(String.raw`^\s*\{\s*(?:${version},\s*)?${id},\s*(?:${version},\s*)?${answer}`);
const answerFirst = new RegExp(String.raw`^\s*\{\s*(?:${version},\s*)?${answer}`);
const idLast = new RegExp(String.raw`,\s*${id}(?:,\s*${version})?\}\s*$`);

/**
 * Which request an answer belongs to that is too large to be parsed, or null where that cannot be told. The first
 * members of the outermost object and its last ones are where servers write the id, and the only places where a look
 * at the ends of the text is proof: nothing nested can stand there.
 */
export function answeredRequest(line: OversizedLine): number | null {
  const head = line.head.toString('latin1');
  const match = answerFirst.test(head) ? idLast.exec(line.tail.toString('latin1')) : idBeforeAnswer.exec(head);
  return match === null ? null : Number(match[1]);
}

const firstText = /"content"\s*:\s*\[\s*\{\s*(?:"type"\s*:\s*"text"\s*,\s*)?"text"\s*:\s*"/;

/** The beginning of the first text of a result, as far as the kept head goes; empty where it begins with no text. */
export function beginningOfText(head: Buffer): string {
  const json = head.toString('utf8');
  const match = firstText.exec(json);
  if (match === null) return '';
  const text = json.slice(match.index + match[0].length);
  try {
    // The replacement character stands for a character that the end of the head cut in two.
    return (JSON.parse(`"${text.slice(0, stringEnd(text))}"`) as string).toWellFormed().replace(/\uFFFD+$/, '');
  } catch {
    return '';
  }
}

/** Where the string ends, or where its last whole character does. */
function stringEnd(text: string): number {
  let at = 0;
  while (at < text.length && text[at] !== '"') {
    const step = text[at] !== '\\' ? 1 : text[at + 1] === 'u' ? 6 : 2;
    if (at + step > text.length) break;
    at += step;
  }
  return at;
}
