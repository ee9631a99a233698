import { useMemo, useState } from 'preact/hooks';
import { useResource } from '../hooks.ts';
import { Empty, Failure, Loading, PageHead } from '../parts.tsx';
import { ago, bytes, counted, duration, UntrustedText } from '../text.tsx';
import { VirtualList } from '../virtual-list.tsx';

interface NodeJson {
  readonly node_id: string;
  readonly machine: string;
  readonly age_ms: number;
  readonly registry_state: string;
  readonly snapshot_revision: number;
  readonly version: string | null;
  readonly load: {
    readonly connections: number;
    readonly subprocesses: number;
    readonly calls_in_flight: number;
    readonly calls_queued: number;
    readonly memory_bytes: number;
    readonly cpu_permille: number;
    readonly up_ms: number;
  } | null;
  readonly servers: number;
  readonly failing: number;
}

const ROW_PX = 56;

/** All node processes, with their load. */
export function Nodes() {
  const { value, error, again } = useResource<{ nodes: readonly NodeJson[] }>('/admin/api/mcp/nodes?servers=counted', [
    'nodes',
  ]);
  const [text, setText] = useState('');
  const nodes = value?.nodes ?? [];
  const shown = useMemo(
    () => nodes.filter(({ node_id: id }) => id.toLowerCase().includes(text.toLowerCase())),
    [nodes, text],
  );
  const machines = new Set(nodes.map(({ machine }) => machine)).size;
  const sum = (of: (load: NonNullable<NodeJson['load']>) => number) =>
    nodes.reduce((total, { load }) => total + (load === null ? 0 : of(load)), 0);
  return (
    <>
      <PageHead title="Nodes" />
      {error === null ? null : <Failure error={error} again={again} />}
      {value === null && error === null ? <Loading /> : null}
      {value !== null && nodes.length === 0 ? (
        <Empty title="No node has reported recently">
          <p>
            A node is a process that runs guests and follows this registry: <code>spear-run GUEST --sms ADDRESS</code>.
            It appears here within a second and disappears a minute after its last report.
          </p>
        </Empty>
      ) : null}
      {nodes.length === 0 ? null : (
        <>
          <div class="filters">
            <input
              type="search"
              placeholder="Search nodes"
              aria-label="Search nodes"
              value={text}
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
            <span class="muted" role="status">
              {counted(machines, 'machine')}, {counted(nodes.length, 'process', 'processes')},{' '}
              {counted(
                sum(({ connections }) => connections),
                'connection',
              )}
              ,{' '}
              {counted(
                sum((load) => load.calls_in_flight),
                'call',
              )}{' '}
              in flight
            </span>
          </div>
          <VirtualList
            items={shown}
            rowPx={ROW_PX}
            label="Nodes"
            rowClass="node-row"
            keyOf={({ node_id: id }) => id}
            head={<Head />}
            row={(node) => <Row node={node} />}
          />
        </>
      )}
    </>
  );
}

function Head() {
  return (
    <>
      <span role="columnheader">Node</span>
      <span role="columnheader">Registry</span>
      <span role="columnheader" class="wide">
        Version
      </span>
      <span role="columnheader">Pool</span>
      <span role="columnheader">Load</span>
      <span role="columnheader" class="wide">
        Servers
      </span>
    </>
  );
}

function Row({ node }: { readonly node: NodeJson }) {
  const { load } = node;
  return (
    <>
      <span role="cell" class="stack">
        <strong>
          <UntrustedText text={node.machine} chars={60} />
        </strong>
        <span class="muted clip">
          <UntrustedText text={node.node_id.slice(node.machine.length + 1) || 'single process'} chars={60} />
        </span>
      </span>
      <span role="cell" class="stack">
        <span class={node.registry_state === 'ready' ? 'state ready' : 'state'}>
          <UntrustedText text={node.registry_state} chars={20} />
        </span>
        <span class="muted">
          revision {node.snapshot_revision} · {ago(node.age_ms)}
        </span>
      </span>
      <span role="cell" class="wide stack">
        <span>{node.version === null ? 'unknown' : <UntrustedText text={node.version} chars={30} />}</span>
        <span class="muted">{load === null ? '' : `up ${duration(load.up_ms)}`}</span>
      </span>
      <span role="cell" class="stack">
        <span>{load === null ? '–' : counted(load.connections, 'connection')}</span>
        <span class="muted">{load === null ? '' : counted(load.subprocesses, 'process', 'processes')}</span>
      </span>
      <span role="cell" class="stack">
        <span>
          {load === null ? '–' : `${(load.cpu_permille / 10).toFixed(0)} % cpu · ${bytes(load.memory_bytes)}`}
        </span>
        <span class="muted">
          {load === null ? '' : `${load.calls_in_flight} in flight · ${load.calls_queued} queued`}
        </span>
      </span>
      <span role="cell" class="wide">
        {node.servers}
        {node.failing === 0 ? '' : <span class="error-text"> · {node.failing} failing</span>}
      </span>
    </>
  );
}
