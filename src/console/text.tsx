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

const steps: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
];

/** `3 h`, `12 s`, `now`. */
export function duration(ms: number): string {
  for (const [unit, size] of steps) if (ms >= size) return `${Math.floor(ms / size)} ${unit}`;
  return 'now';
}

export function ago(ms: number): string {
  const text = duration(ms);
  return text === 'now' ? 'just now' : `${text} ago`;
}

export function latency(ms: number | null): string {
  if (ms === null) return '–';
  if (ms < 1) return '< 1 ms';
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  if (count < 1024 ** 2) return `${(count / 1024).toFixed(0)} KiB`;
  if (count < 1024 ** 3) return `${(count / 1024 ** 2).toFixed(0)} MiB`;
  return `${(count / 1024 ** 3).toFixed(1)} GiB`;
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`;
}

/** Local, to the second. */
export function clock(atMs: number): string {
  return Number.isFinite(atMs) && Math.abs(atMs) < 8e15 ? new Date(atMs).toLocaleString('sv') : '–';
}
