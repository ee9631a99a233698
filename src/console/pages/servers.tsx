import { useMemo, useState } from 'preact/hooks';
import type { ServerSummaryJson, SummaryJson } from '../../registry/console-api.ts';
import { linkTo, useResource } from '../hooks.ts';
import { Empty, Failure, Health, Loading, PageHead } from '../parts.tsx';
import { mayOperate } from '../sign-in.tsx';
import { counted, latency, UntrustedText } from '../text.tsx';
import { VirtualList } from '../virtual-list.tsx';

const ROW_PX = 56;
const filters = ['all', 'failing', 'connected', 'unused'] as const;
type Filter = (typeof filters)[number];

/** All servers, with the health that nodes report. */
export function Servers({ filter: given }: { readonly filter: string }) {
  const { value, error, again } = useResource<SummaryJson>('/admin/api/mcp/summary', ['servers', 'nodes']);
  const [text, setText] = useState('');
  const [filter, setFilter] = useState<Filter>(filters.find((one) => one === given) ?? 'all');
  const shown = useMemo(() => chosen(value?.servers ?? [], text, filter), [value, text, filter]);
  return (
    <>
      <PageHead title="Servers">
        {mayOperate() ? (
          <a class="button primary" href={linkTo('servers', '', 'new')}>
            Add a server
          </a>
        ) : null}
      </PageHead>
      {error === null ? null : <Failure error={error} again={again} />}
      {value === null ? (
        error === null ? (
          <Loading />
        ) : null
      ) : value.servers.length === 0 ? (
        <Empty title="No servers yet">
          <p>
            {mayOperate() ? (
              <a href={linkTo('servers', '', 'new')}>Add your first server</a>
            ) : (
              'Ask an operator to add a server'
            )}
            , load a directory with <code>spear-sms --mcp-registry-dir DIR</code>, or import the servers of other
            programs with <code>spear servers import FILE</code>.
          </p>
        </Empty>
      ) : (
        <>
          <div class="filters">
            <input
              type="search"
              placeholder="Search id, name, tag, target"
              aria-label="Search servers"
              value={text}
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
            <div class="segments" role="group" aria-label="Filter servers">
              {filters.map((one) => (
                <button type="button" key={one} aria-pressed={one === filter} onClick={() => setFilter(one)}>
                  {one}
                </button>
              ))}
            </div>
            <span class="muted" role="status">
              {shown.length === value.servers.length
                ? counted(shown.length, 'server')
                : `${shown.length} of ${value.servers.length}`}
            </span>
          </div>
          {shown.length === 0 ? (
            <Empty title="No matching servers">
              <p>Change the search or the filter.</p>
            </Empty>
          ) : (
            <VirtualList
              items={shown}
              rowPx={ROW_PX}
              label="Servers"
              rowClass="server-row"
              keyOf={({ server_id: id }) => id}
              head={<Head />}
              row={(server) => <Row server={server} />}
            />
          )}
        </>
      )}
    </>
  );
}

function chosen(servers: readonly ServerSummaryJson[], text: string, filter: Filter): readonly ServerSummaryJson[] {
  const wanted = text.trim().toLowerCase();
  return servers.filter(({ server_id: id, display_name: name, tags, target, health }) => {
    if (filter === 'failing' && health !== 'down' && health !== 'degraded') return false;
    if (filter === 'connected' && health !== 'connected') return false;
    if (filter === 'unused' && health !== null) return false;
    return wanted === '' || [id, name, target, ...tags].some((each) => each.toLowerCase().includes(wanted));
  });
}

function Head() {
  return (
    <>
      <span role="columnheader">Server</span>
      <span role="columnheader">Health</span>
      <span role="columnheader" class="wide">
        Target
      </span>
      <span role="columnheader" class="number">
        Tools
      </span>
      <span role="columnheader" class="number">
        Latency
      </span>
      <span role="columnheader" class="wide">
        Last error
      </span>
    </>
  );
}

function Row({ server }: { readonly server: ServerSummaryJson }) {
  const { nodes, last_error: failed } = server;
  const processes = nodes.connected + nodes.degraded + nodes.down + nodes.idle;
  return (
    <>
      <span role="cell" class="stack">
        <a href={linkTo('servers', server.server_id)}>
          <UntrustedText text={server.server_id} chars={80} />
        </a>
        <span class="muted">
          <UntrustedText
            text={server.display_name === server.server_id ? server.tags.join(', ') : server.display_name}
            chars={60}
          />
        </span>
      </span>
      <span role="cell" class="stack">
        <Health health={server.health} />
        <span class="muted">
          {processes === 0 ? '' : `${nodes.connected} of ${counted(processes, 'process', 'processes')}`}
        </span>
      </span>
      <span role="cell" class="wide clip">
        <span class="tag">{server.transport === 'stdio' ? 'stdio' : 'http'}</span>{' '}
        <code>
          <UntrustedText text={server.target} chars={120} />
        </code>
      </span>
      <span role="cell" class="number">
        {server.tool_count ?? '–'}
      </span>
      <span role="cell" class="number">
        {latency(server.latency_ms)}
      </span>
      <span role="cell" class="wide clip error-text">
        {failed === null ? '' : <UntrustedText text={failed.text} chars={160} />}
      </span>
    </>
  );
}
