import { useState } from 'preact/hooks';
import { startOf, visible, visibleLines } from '../base/text.ts';

/** Maximum length of a text in a list. */
const LINE_CHARS = 300;
/** Initially visible part of a long text. */
export const BLOCK_CHARS = 2_000;
/** Maximum length of a rendered text: longer texts make the page slow. */
const WHOLE_CHARS = 200_000;

/**
 * Untrusted text of a server, model, node or user in one line. Invisible and bidirectional control characters are shown by
 * name, and long texts are shortened. Set as text, never as markup.
 */
export function UntrustedText({ text, chars = LINE_CHARS }: { readonly text: string; readonly chars?: number }) {
  const shown = visible(startOf(text, chars));
  const isCut = text.length > chars;
  return (
    <bdi class="untrusted" title={isCut ? `${text.length} characters` : undefined}>
      {shown}
      {isCut ? '…' : ''}
    </bdi>
  );
}

/** Untrusted text in a block with line breaks, expandable. `all` removes the limit, for texts that must be read completely. */
export function UntrustedBlock({
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
    <div class="untrusted-block">
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

/** Local time with seconds. */
export function clock(atMs: number): string {
  return Number.isFinite(atMs) && Math.abs(atMs) < 8e15 ? new Date(atMs).toLocaleString('sv') : '–';
}
