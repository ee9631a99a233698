import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';

export interface Line {
  readonly label: string;
  readonly values: readonly (number | null)[];
  /** A variable of the style sheet. */
  readonly colour: string;
}

const HEIGHT_PX = 150;
/** A registry that has just started has little to show: not as if it were all there is. */
const SHORTEST_S = 600;

const stepped = uPlot.paths.stepped?.({ align: 1 });
/** Half a server is no server. */
const wholeSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000];
const minute = (seconds: number) => new Date(seconds * 1_000).toTimeString().slice(0, 5);

/** Lines over time. What it shows is told in words beside it, for who cannot see it. */
export function Chart({ title, atMs, lines }: { title: string; atMs: readonly number[]; lines: readonly Line[] }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = [atMs.map((ms) => ms / 1_000), ...lines.map(({ values }) => [...values])] as uPlot.AlignedData;
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsFor(element, lines), data, element);
    };
    draw();
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', draw);
    const sizes = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    sizes.observe(element);
    return () => {
      scheme.removeEventListener('change', draw);
      sizes.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [atMs, lines]);
  const words = lines.map(({ label, values }) => `${label}: ${values.at(-1) ?? 'none'}`).join(', ');
  return (
    <figure class="chart">
      <figcaption>
        <span>{title}</span>
        <span class="legend">
          {lines.map(({ label, colour }) => (
            <span key={label} class="key" style={{ '--key': `var(${colour})` }}>
              {label}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={place} role="img" aria-label={`${title}, now: ${words}`} />
    </figure>
  );
}

function optionsFor(element: HTMLElement, lines: readonly Line[]): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour('--muted'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
    font: `11px ${style.fontFamily}`,
  };
  return {
    width: element.clientWidth,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { range: (_, low, high) => [Math.min(low, high - SHORTEST_S), high] },
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 0) * 1.1)] },
    },
    axes: [
      { ...axis, size: 24, space: 70, values: (_, times) => times.map(minute) },
      { ...axis, size: 40, incrs: [...wholeSteps] },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 2,
        ...(stepped === undefined ? {} : { paths: stepped }),
        points: { show: false },
      })),
    ],
  };
}
