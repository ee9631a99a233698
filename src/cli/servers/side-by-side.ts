import { cutText } from '../../base/cut-text.ts';
import type { JsonValue } from '../../base/json.ts';
import { visible } from '../../base/visible-text.ts';
import type { DefinitionChange } from '../../protocol/approval.ts';

const MIN_COLUMNS = 40;
const BETWEEN = ' │ ';
const INDENT = '  ';
/** Of one value: whoever wants more looks at it as JSON. */
const MAX_CHARS = 4_000;

/** What was pinned on the left, what is there now on the right. All of it is a server's own text: nothing of it is obeyed. */
export function sideBySide(changes: readonly DefinitionChange[], columns: number): string {
  const width = Math.floor((Math.max(columns, MIN_COLUMNS) - INDENT.length - BETWEEN.length) / 2);
  const row = (left: string, right: string) => `${INDENT}${left.padEnd(width)}${BETWEEN}${right}`.trimEnd();
  const lines = changes.flatMap(({ path, before, after }) => {
    const [left, right] = [broken(before, width), broken(after, width)];
    const height = Math.max(left.length, right.length);
    const rows = Array.from({ length: height }, (_, at) => row(left[at] ?? '', right[at] ?? ''));
    return [`${INDENT}${visible(cutText(path, MAX_CHARS))}:`, row('pinned', 'now'), ...rows];
  });
  return lines.map((line) => `${line}\n`).join('');
}

function broken(value: JsonValue | undefined, width: number): string[] {
  if (value === undefined) return ['(none)'];
  const text = visible(cutText(typeof value === 'string' ? value : JSON.stringify(value), MAX_CHARS));
  const parts: string[] = [];
  const letters = [...text];
  for (let at = 0; at < letters.length; at += width) parts.push(letters.slice(at, at + width).join(''));
  return parts.length === 0 ? ["''"] : parts;
}
