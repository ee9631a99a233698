import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { visible } from '../base/text.ts';
import type { HealthJson } from '../registry/console-api.ts';
import type { ApiError } from './api.ts';
import { UntrustedText } from './text.tsx';

/** Error message with a retry button. */
export function Failure({ error, again }: { readonly error: ApiError; readonly again?: () => void }) {
  return (
    <div class="notice bad" role="alert">
      <strong>
        {error.status === 0 ? (
          'Registry unreachable'
        ) : (
          <UntrustedText text={`Request failed (${error.status} ${error.kind})`} chars={80} />
        )}
      </strong>
      <p>
        <UntrustedText text={error.message} chars={2_000} />
      </p>
      {error.errors.length > 0 ? (
        <ul>
          {error.errors.map(({ field, detail }) => (
            <li key={field}>
              <code>
                <UntrustedText text={field} />
              </code>{' '}
              <UntrustedText text={detail} />
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

/** Placeholder of an empty list: the reason and the next step. */
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

/** A label with a mark that differs by shape, for users who do not see colours. */
export function Health({ health }: { readonly health: HealthJson | null }) {
  const word = health ?? 'unused';
  return <span class={`health ${word}`}>{healthWords[word] ?? <UntrustedText text={word} chars={20} />}</span>;
}

export function PageHead({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  // Screen readers announce the heading after every page change.
  useEffect(() => heading.current?.focus(), [title]);
  return (
    <header class="page-head">
      <h1 ref={heading} tabIndex={-1}>
        <UntrustedText text={title} chars={120} />
      </h1>
      <div class="actions">{children}</div>
    </header>
  );
}

/** One row of a description list. */
export function Fact({ name, text }: { readonly name: string; readonly text: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <UntrustedText text={text} chars={400} />
      </dd>
    </div>
  );
}

/** Native dialog: traps the focus and closes with Escape. */
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
          <UntrustedText text={title} chars={200} />
        </h2>
        <button type="button" class="quiet" aria-label="Close" onClick={() => dialog.current?.close()}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}
