const LETTERS_PER_TYPO = 3;

/** The valid key somebody most likely meant, for "did you mean" messages. */
export function nearestKey(unknown: string, valid: readonly string[]): string | undefined {
  const wanted = plain(unknown);
  if (wanted === '') return undefined;
  const allowed = Math.ceil(wanted.length / LETTERS_PER_TYPO);
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const key of valid) {
    const candidate = plain(key);
    // `timeout` for `timeout_ms` is a forgotten unit rather than a slip of the fingers, and farther than one.
    const isPart = candidate.startsWith(wanted) || wanted.startsWith(candidate);
    const distance = isPart ? Math.min(allowed, editDistance(wanted, candidate)) : editDistance(wanted, candidate);
    if (distance <= allowed && distance < bestDistance) {
      best = key;
      bestDistance = distance;
    }
  }
  return best;
}

/** `did you mean "timeout_ms"?`, where one of the valid keys comes near. */
export function didYouMean(unknown: string, valid: readonly string[]): string | undefined {
  const nearest = nearestKey(unknown, valid);
  return nearest === undefined ? undefined : `did you mean ${JSON.stringify(nearest)}?`;
}

// `apiKey`, `api-key` and `api_key` are one key to the person who typed it.
function plain(key: string): string {
  return key.toLowerCase().replaceAll(/[-_\s]/g, '');
}

/** Insertions, deletions, replacements and swaps of neighbours, each counting one. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(at(last, column) + 1, at(current, column - 1) + 1, at(last, column - 1) + (same ? 0 : 1));
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) cost = Math.min(cost, at(beforeLast, column - 2) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
