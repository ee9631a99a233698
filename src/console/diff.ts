export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed';
  readonly text: string;
}

/** Larger texts are not compared: everything counts as changed. */
const MAX_LINES = 2_000;
/** Unchanged lines kept around a change. */
const CONTEXT = 3;

/** Line diff by longest common subsequence. */
export function diffLines(before: string, after: string): readonly DiffLine[] {
  const [a, b] = [linesOf(before), linesOf(after)];
  if (a.length > MAX_LINES || b.length > MAX_LINES) {
    return [...a.map((text) => line('removed', text)), ...b.map((text) => line('added', text))];
  }
  // lengths[i][j]: length of the longest common subsequence of a from i and b from j.
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  const at = (i: number, j: number) => lengths[i]?.[j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    const row = lengths[i];
    if (row === undefined) continue;
    for (let j = b.length - 1; j >= 0; j--) {
      row[j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(line('same', a[i] ?? ''));
      i += 1;
      j += 1;
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) {
      lines.push(line('removed', a[i] ?? ''));
      i += 1;
    } else {
      lines.push(line('added', b[j] ?? ''));
      j += 1;
    }
  }
  return lines;
}

/** Keeps only lines near a change; null marks omitted lines. */
export function nearChanges(lines: readonly DiffLine[]): readonly (DiffLine | null)[] {
  const isNear = lines.map((_, at) =>
    lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(({ kind }) => kind !== 'same'),
  );
  return lines.flatMap((each, at) => {
    if (isNear[at]) return [each];
    return at > 0 && !isNear[at - 1] ? [] : [null];
  });
}

const line = (kind: DiffLine['kind'], text: string): DiffLine => ({ kind, text });
const linesOf = (text: string) => (text === '' ? [] : text.split('\n'));
