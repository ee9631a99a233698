import { pathText } from '../../records/fields.ts';

/** Where in a file a field is. Paths are written as in RecordIssue. */
export class FieldLines {
  readonly #lines = new Map<string, number>();

  /** False when the field was there before. */
  add(path: readonly PropertyKey[], line: number): boolean {
    const text = pathText(path);
    if (this.#lines.has(text)) return false;
    this.#lines.set(text, line);
    return true;
  }

  /** The line of the field, or of the nearest thing around it that has one. */
  of(path: string): number | null {
    for (let text = path; text !== ''; text = parentOf(text)) {
      const line = this.#lines.get(text);
      if (line !== undefined) return line;
    }
    return null;
  }
}

function parentOf(path: string): string {
  const cut = /(?:\.[\w-]+|\[(?:\d+|"(?:[^"\\]|\\.)*")\]|^[\w-]+)$/.exec(path);
  return cut === null ? '' : path.slice(0, cut.index);
}

const tomlKey = `(?:[\\w-]+|"[^"\\n]*"|'[^'\\n]*')`;
const tomlKeys = `${tomlKey}(?:[ \\t]*\\.[ \\t]*${tomlKey})*`;
const tomlTable = new RegExp(`^[ \\t]*\\[[ \\t]*(${tomlKeys})[ \\t]*\\]`);
const tomlPair = new RegExp(`^[ \\t]*(${tomlKeys})[ \\t]*=`);

/**
 * The parser does not say where a key was, so this reads tables and keys line by line. It serves messages alone: where
 * a file is written in a way that it does not see through, a message names the line of the table instead.
 */
export function tomlFieldLines(text: string): FieldLines {
  const lines = new FieldLines();
  let table: string[] = [];
  let insideText = false;
  for (const [index, line] of text.split('\n').entries()) {
    const header = insideText ? null : tomlTable.exec(line);
    const pair = insideText ? null : tomlPair.exec(line);
    if (header !== null) {
      table = splitTomlKeys(header[1] ?? '');
      lines.add(table, index + 1);
    } else if (pair !== null) {
      lines.add([...table, ...splitTomlKeys(pair[1] ?? '')], index + 1);
    }
    if ((line.match(/"""|'''/g)?.length ?? 0) % 2 === 1) insideText = !insideText;
  }
  return lines;
}

function splitTomlKeys(keys: string): string[] {
  return [...keys.matchAll(new RegExp(tomlKey, 'g'))].map(([key]) => key.replace(/^["'](.*)["']$/, '$1'));
}
