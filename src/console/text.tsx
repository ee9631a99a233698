import { useState } from 'preact/hooks';
import { startOf, visible, visibleLines } from '../base/text.ts';

/** What fits into a line of a list. */
const LINE_CHARS = 300;
/** What is shown of a long text before somebody asks for the rest. */
export const BLOCK_CHARS = 2_000;
/** What is drawn at all: beyond this a page gets slow, and nobody reads. */
const WHOLE_CHARS = 200_000;

/**
 * A text of a server, a model, a node or a person in one line: what would be unseen or change the order of letters is
 * named, and it is no longer than a line bears. It is set as text, so nothing in it is markup.
 */
export function Told({ text, chars = LINE_CHARS }: { readonly text: string; readonly chars?: number }) {
  const shown = visible(startOf(text, chars));
  const isCut = text.length > chars;
  return (
    <bdi class="told" title={isCut ? `${text.length} characters` : undefined}>
      {shown}
      {isCut ? '…' : ''}
    </bdi>
  );
}

/** The same in a block of its own lines, whole on demand. `all`: without any bound, for a text to be read to its end. */
export function ToldBlock({
  text,
  label,
  all = false,
}: {
  readonly text: string;
  readonly label: string;
  readonly all?: boolean;
}) {
  const [isWhole, setWhole] = useState(false);
  const limit = all ? Number.POSITIVE_INFINITY : isWhole ? WHOLE_CHARS : BLOCK_CHARS;
  const isCut = text.length > limit;
  return (
    <div class="told-block">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre tabIndex={0} role="region" aria-label={label}>
        {visibleLines(startOf(text, limit))}
      </pre>
      {isCut && !isWhole ? (
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          Show all {text.length.toLocaleString('en')} characters
        </button>
      ) : null}
      {isCut && isWhole ? (
        <p class="muted">
          Showing the first {WHOLE_CHARS.toLocaleString('en')} of {text.length.toLocaleString('en')} characters.
        </p>
      ) : null}
    </div>
  );
}

export function asJson(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? '';
}
