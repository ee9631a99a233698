import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import type { OverviewJson } from '../../registry/console-api.ts';
import { linkTo, useResource } from '../hooks.ts';
import { Empty, Failure, Health, Loading, PageHead } from '../parts.tsx';
import { ago, counted, duration, UntrustedText } from '../text.tsx';

/** Summary of the registry and its nodes. */
export function Overview() {
  const { value, error, again } = useResource<OverviewJson>('/admin/api/overview', [
    'servers',
    'profiles',
    'nodes',
    'approvals',
  ]);
  return (
    <>
      <PageHead title="Overview" />
      {error === null ? null : <Failure error={error} again={again} />}
      {value === null ? error === null ? <Loading /> : null : <Figures overview={value} />}
    </>
  );
}

function Figures({ overview }: { readonly overview: OverviewJson }) {
  const { nodes, health, history, errors, pending_approvals: pending } = overview;
  const failing = health.down + health.degraded;
  return (
    <>
      {overview.write_problem === null ? null : (
        <div class="notice bad" role="alert">
          <strong>Changes cannot be stored</strong>
          <p>
            <UntrustedText text={overview.write_problem} /> Reads still work. Free space on the disk of the registry.
          </p>
        </div>
      )}
      <div class="cards">
        <Card
          href={linkTo('nodes')}
          name="Nodes"
          figure={nodes.machines}
          note={
            nodes.machines === 0
              ? 'none reported recently'
              : [
                  counted(nodes.processes, 'process', 'processes'),
                  ...(nodes.behind > 0 ? [`${nodes.behind} behind`] : ['all up to date']),
                  ...(nodes.troubled > 0 ? [`${nodes.troubled} not ready`] : []),
                ].join(' · ')
          }
          tone={nodes.troubled > 0 ? 'warn' : 'plain'}
        />
        <Card
          href={linkTo('servers')}
          name="Servers"
          figure={overview.servers}
          note={`${health.connected} connected · ${health.idle} idle · ${health.unused} unused`}
        />
        <Card
          href={linkTo('servers', '', 'failing')}
          name="Failing"
          figure={failing}
          note={failingText(health, errors.length)}
          tone={failing > 0 ? 'bad' : errors.length > 0 ? 'warn' : 'good'}
        />
        <Card
          href={linkTo('approvals')}
          name="Pending approvals"
          figure={pending}
          note={pending === 0 ? 'no pending approvals' : 'waiting for a decision'}
          tone={pending > 0 ? 'warn' : 'plain'}
        />
        <Card
          href={linkTo('audit')}
          name="Revision"
          figure={overview.revision}
          note={`${counted(overview.profiles, 'profile')} · epoch ${overview.epoch.slice(0, 8)}`}
        />
      </div>
      <div class="charts">
        <Chart
          title="Servers in use"
          atMs={history.at_ms}
          lines={[
            { label: 'connected', values: history.connected, colour: '--good' },
            { label: 'failing', values: history.failing, colour: '--bad' },
          ]}
        />
        <Chart
          title="Tool latency, ms"
          atMs={history.at_ms}
          lines={[{ label: 'mean', values: history.latency_ms, colour: '--accent' }]}
        />
      </div>
      <section aria-labelledby="errors-title">
        <h2 id="errors-title">Errors reported by nodes</h2>
        {errors.length === 0 ? (
          <Empty title="No errors">
            <p>
              {nodes.machines === 0
                ? 'Nodes report the servers that they use. Start a node with: spear-run GUEST --sms ADDRESS'
                : 'All servers in use are responding.'}
            </p>
          </Empty>
        ) : (
          <ul class="rows">
            {errors.map((each) => (
              <li key={`${each.server_id}/${each.node_id}`}>
                <Health health={each.health} />
                <a href={linkTo('servers', each.server_id)}>
                  <UntrustedText text={each.server_id} chars={80} />
                </a>
                <span class="grow">
                  <UntrustedText text={each.text} />
                </span>
                <span class="muted">
                  <UntrustedText text={each.node_id} chars={60} /> · {ago(each.age_ms)}
                </span>
              </li>
            ))}
          </ul>
        )}
      </section>
      <p class="muted foot">
        spear-sms <UntrustedText text={overview.version} chars={30} />, up for {duration(overview.up_ms)}
      </p>
    </>
  );
}

/** The last error of a server stays until the server lists its tools again, even while it is idle. */
function failingText({ down, degraded }: OverviewJson['health'], errors: number): string {
  if (down + degraded > 0) return `${down} down · ${degraded} degraded`;
  return errors === 0 ? 'no failing servers' : `${counted(errors, 'error')} since the last tool list`;
}

function Card(props: {
  readonly href: string;
  readonly name: string;
  readonly figure: number;
  readonly note: string;
  readonly tone?: 'plain' | 'good' | 'warn' | 'bad';
}) {
  return (
    <a class={`card ${props.tone ?? 'plain'}`} href={props.href}>
      <span class="name">{props.name}</span>
      <span class="figure">{props.figure.toLocaleString('en')}</span>
      <span class="note">
        <UntrustedText text={props.note} chars={120} />
      </span>
    </a>
  );
}

export interface Line {
  readonly label: string;
  readonly values: readonly (number | null)[];
  /** CSS variable of the colour. */
  readonly colour: string;
}

const HEIGHT_PX = 150;
/** Minimum time range, so that the first samples after a start do not fill the chart. */
const SHORTEST_S = 600;

const stepped = uPlot.paths.stepped?.({ align: 1 });
/** Axis steps are integers. */
const wholeSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000];
const minute = (seconds: number) => new Date(seconds * 1_000).toTimeString().slice(0, 5);

/** Line chart over time, with a text alternative beside it. */
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
