import { visible } from '../base/text.ts';
import { diffLines, nearChanges } from './diff.ts';

const MAX_LINE_CHARS = 2_000;
const marks = { same: ' ', added: '+', removed: '−' };

/** Line-by-line differences of two texts. */
export function DiffView({ before, after, label }: { before: string; after: string; label: string }) {
  const lines = nearChanges(diffLines(before, after));
  if (!lines.some((each) => each !== null && each.kind !== 'same')) return <p class="muted">No changes.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div class="diff" role="region" aria-label={visible(label)} tabIndex={0}>
      {lines.map((each, at) =>
        each === null ? (
          <div key={at} class="muted">
            ⋯
          </div>
        ) : (
          <div key={at} class={each.kind}>
            <span class="mark">{marks[each.kind]}</span>
            {visible(each.text.slice(0, MAX_LINE_CHARS))}
          </div>
        ),
      )}
    </div>
  );
}
