import type { OverviewJson } from '../../registry/console-api.ts';
import { Chart } from '../chart.tsx';
import { linkTo, useResource } from '../hooks.ts';
import { ago, counted, duration } from '../numbers.ts';
import { Empty, Failure, Health, Loading, PageHead } from '../parts.tsx';
import { Told } from '../text.tsx';

/** How the registry and everything that follows it are, at a glance. */
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
            <Told text={overview.write_problem} /> Reads still work. Free space on the disk of the registry.
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
                  <Told text={each.server_id} chars={80} />
                </a>
                <span class="grow">
                  <Told text={each.text} />
                </span>
                <span class="muted">
                  <Told text={each.node_id} chars={60} /> · {ago(each.age_ms)}
                </span>
              </li>
            ))}
          </ul>
        )}
      </section>
      <p class="muted foot">
        spear-sms <Told text={overview.version} chars={30} />, up for {duration(overview.up_ms)}
      </p>
    </>
  );
}

/** A server may have failed and be idle since: its last error stays until it lists its tools again. */
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
        <Told text={props.note} chars={120} />
      </span>
    </a>
  );
}
