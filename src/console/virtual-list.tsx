import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/** Rows rendered above and below the visible part, so that scrolling shows no gaps. */
const SPARE_ROWS = 8;

export interface VirtualListProps<T> {
  readonly items: readonly T[];
  readonly rowPx: number;
  readonly label: string;
  readonly keyOf: (item: T) => string;
  readonly head?: ComponentChildren;
  readonly row: (item: T) => ComponentChildren;
  /** Class of every row. */
  readonly rowClass?: string;
}

/** Table with rows of equal height that renders only the visible rows. */
export function VirtualList<T>({ items, rowPx, label, keyOf, head, row, rowClass = '' }: VirtualListProps<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 800 });
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const look = () => setSeen({ top: element.scrollTop, height: element.clientHeight });
    look();
    element.addEventListener('scroll', look, { passive: true });
    const sizes = new ResizeObserver(look);
    sizes.observe(element);
    return () => {
      element.removeEventListener('scroll', look);
      sizes.disconnect();
    };
  }, []);
  const first = Math.max(0, Math.floor(seen.top / rowPx) - SPARE_ROWS);
  const last = Math.min(items.length, Math.ceil((seen.top + seen.height) / rowPx) + SPARE_ROWS);
  const headRows = head === undefined ? 0 : 1;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div class="virtual" ref={box} tabIndex={0} role="region" aria-label={label}>
      <div role="table" aria-label={label} aria-rowcount={items.length + headRows}>
        {head === undefined ? null : (
          <div role="rowgroup" class="virtual-head">
            <div role="row" class={`vrow ${rowClass}`} aria-rowindex={1}>
              {head}
            </div>
          </div>
        )}
        <div role="rowgroup" class="virtual-body" style={{ height: `${items.length * rowPx}px` }}>
          {items.slice(first, last).map((item, at) => (
            <div
              key={keyOf(item)}
              role="row"
              class={`vrow ${rowClass}`}
              aria-rowindex={first + at + 1 + headRows}
              style={{ transform: `translateY(${(first + at) * rowPx}px)`, height: `${rowPx}px` }}
            >
              {row(item)}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
