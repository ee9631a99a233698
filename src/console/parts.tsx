import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { visible } from '../base/text.ts';
import type { HealthJson } from '../registry/console-api.ts';
import type { ApiError } from './api.ts';
import { Told } from './text.tsx';

/** Says what failed, with the way to try again. */
export function Failure({ error, again }: { readonly error: ApiError; readonly again?: () => void }) {
  return (
    <div class="notice bad" role="alert">
      <strong>
        {error.status === 0 ? (
          'Registry unreachable'
        ) : (
          <Told text={`Request failed (${error.status} ${error.kind})`} chars={80} />
        )}
      </strong>
      <p>
        <Told text={error.message} chars={2_000} />
      </p>
      {error.errors.length > 0 ? (
        <ul>
          {error.errors.map(({ field, detail }) => (
            <li key={field}>
              <code>
                <Told text={field} />
              </code>{' '}
              <Told text={detail} />
            </li>
          ))}
        </ul>
      ) : null}
      {again === undefined ? null : (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** What stands where a list is empty: why, and what to do next. */
export function Empty({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Loading() {
  return (
    <p class="muted loading" role="status">
      Loading…
    </p>
  );
}

const healthWords: Readonly<Record<HealthJson | 'unused', string>> = {
  connected: 'connected',
  degraded: 'degraded',
  down: 'down',
  idle: 'idle',
  unused: 'unused',
};

/** A word with a mark of its own shape: colour alone says nothing to some. */
export function Health({ health }: { readonly health: HealthJson | null }) {
  const word = health ?? 'unused';
  return <span class={`health ${word}`}>{healthWords[word] ?? <Told text={word} chars={20} />}</span>;
}

export function PageHead({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  // A reader of screens hears where it is after every change of page.
  useEffect(() => heading.current?.focus(), [title]);
  return (
    <header class="page-head">
      <h1 ref={heading} tabIndex={-1}>
        <Told text={title} chars={120} />
      </h1>
      <div class="actions">{children}</div>
    </header>
  );
}

/** A dialog of the browser: it keeps the focus and closes with Escape. */
export function Dialog({
  title,
  onClose,
  children,
}: {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} aria-label={visible(title)} onClose={onClose}>
      <header class="page-head">
        <h2>
          <Told text={title} chars={200} />
        </h2>
        <button type="button" class="quiet" aria-label="Close" onClick={() => dialog.current?.close()}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}
