import { useState } from 'preact/hooks';
import type { JsonObject } from '../../base/json.ts';
import { visible } from '../../base/text.ts';
import type { HealthJson, ServerToolsJson } from '../../registry/console-api.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { ApiError, post, request } from '../api.ts';
import { linkTo, useResource } from '../hooks.ts';
import { Dialog, Empty, Fact, Failure, Health, Loading, PageHead } from '../parts.tsx';
import { mayOperate } from '../sign-in.tsx';
import { ago, asJson, clock, counted, latency, UntrustedBlock, UntrustedText } from '../text.tsx';
import { VirtualList } from '../virtual-list.tsx';

export interface ServerJson extends McpServerRecord {
  readonly origin: string;
  readonly nodes: readonly {
    readonly node_id: string;
    readonly age_ms: number;
    readonly snapshot_revision: number;
    readonly health: HealthJson;
    readonly last_error: string | null;
    readonly tool_count: number | null;
    readonly reconnects: number;
    readonly latency_ms: number | null;
  }[];
}

const TOOL_PX = 44;

/** One server: its record, its health on the nodes, and its tools. */
export function Server({ id }: { readonly id: string }) {
  const path = `/admin/api/mcp/servers/${encodeURIComponent(id)}`;
  const { value, error, again } = useResource<ServerJson>(path, ['servers', 'nodes']);
  const [removing, setRemoving] = useState(false);
  return (
    <>
      <PageHead title={id}>
        {value !== null && mayOperate() ? (
          <>
            <TestButton path={path} />
            <a class="button" href={linkTo('servers', id, 'edit')}>
              Edit
            </a>
            <button type="button" class="danger" onClick={() => setRemoving(true)}>
              Remove
            </button>
          </>
        ) : null}
      </PageHead>
      <p>
        <a href={linkTo('servers')}>All servers</a>
      </p>
      {error === null ? null : <Failure error={error} again={again} />}
      {value === null ? error === null ? <Loading /> : null : <Details server={value} />}
      {value === null ? null : <Tools path={path} record={value} />}
      {removing && value !== null ? <Removal path={path} server={value} close={() => setRemoving(false)} /> : null}
    </>
  );
}

function Details({ server }: { readonly server: ServerJson }) {
  const { nodes, origin, ...record } = server;
  const { updated_at_ms: updated, mod_revision: revision, ...content } = record;
  return (
    <>
      <dl class="facts">
        <Fact name="Name" text={server.display_name} />
        <Fact name="Transport" text={server.transport} />
        <Fact
          name="Target"
          text={
            server.stdio === null ? (server.http?.url ?? '') : [server.stdio.command, ...server.stdio.args].join(' ')
          }
        />
        <Fact name="Tags" text={server.tags.join(', ') || 'none'} />
        <Fact name="Allowed tools" text={server.allowed_tools.join(', ') || 'none: every tool is denied'} />
        <Fact name="Approval" text={approvalText(server)} />
        <Fact name="Changed" text={`${clock(updated)}, revision ${revision}, from ${origin || 'the API'}`} />
      </dl>
      <section aria-labelledby="nodes-title">
        <h2 id="nodes-title">Status on nodes</h2>
        {nodes.length === 0 ? (
          <Empty title="No node uses this server">
            <p>
              A node connects when a guest first needs the server. To test the server, run{' '}
              <code>
                <UntrustedText text={`spear servers test ${server.server_id}`} chars={100} />
              </code>
              .
            </p>
          </Empty>
        ) : (
          <ul class="rows">
            {nodes.map((node) => (
              <li key={node.node_id}>
                <Health health={node.health} />
                <span>
                  <UntrustedText text={node.node_id} chars={80} />
                </span>
                <span class="grow error-text">
                  {node.last_error === null ? '' : <UntrustedText text={node.last_error} />}
                </span>
                <span class="muted">
                  {[
                    node.tool_count === null ? 'tools not listed' : counted(node.tool_count, 'tool'),
                    `latency ${latency(node.latency_ms)}`,
                    counted(node.reconnects, 'reconnect'),
                    ago(node.age_ms),
                  ].join(' · ')}
                </span>
              </li>
            ))}
          </ul>
        )}
      </section>
      <details>
        <summary>Server as JSON</summary>
        <UntrustedBlock label="Server as JSON" text={asJson(content)} />
      </details>
    </>
  );
}

function approvalText({ approval_policy: { default: usual, per_tool: perTool } }: McpServerRecord): string {
  const exceptions = Object.entries(perTool).map(([pattern, mode]) => `${pattern}: ${mode}`);
  return [usual, ...exceptions].join(', ');
}

function Tools({ path, record }: { readonly path: string; readonly record: McpServerRecord }) {
  const { value, error, again } = useResource<ServerToolsJson>(`${path}/tools`, ['nodes', 'servers']);
  const pins = Object.keys(record.pins).length;
  return (
    <section aria-labelledby="tools-title">
      <h2 id="tools-title">Tools reported by nodes</h2>
      {error === null ? null : <Failure error={error} again={again} />}
      {value !== null && value.lists.length === 0 ? (
        <Empty title="No tools reported yet">
          <p>A node reports the tools after it has listed them for a guest.</p>
        </Empty>
      ) : null}
      {value === null || value.lists.length < 2 ? null : (
        <p class="notice warn">
          Nodes received {value.lists.length} different tool lists: the server changed, or returns different tools to
          each node.
        </p>
      )}
      {value?.lists.map(({ hash, nodes, tools }) => (
        <div key={hash}>
          <p class="muted">
            {counted(tools.length, 'tool')} on {counted(nodes.length, 'process', 'processes')}
            {pins === 0 ? '; none pinned' : `; ${pins} pinned`}
          </p>
          <VirtualList
            items={tools}
            rowPx={TOOL_PX}
            label="Tools"
            rowClass="tool-row"
            keyOf={({ name }) => name}
            head={
              <>
                <span role="columnheader">Tool</span>
                <span role="columnheader">Definition (sha256)</span>
                <span role="columnheader">Pin</span>
              </>
            }
            row={({ name, definition_sha256: sha256, pin }) => (
              <>
                <span role="cell" class="clip">
                  <code>
                    <UntrustedText text={name} chars={80} />
                  </code>
                </span>
                <span role="cell" class="clip">
                  <code title={visible(sha256.slice(0, 64))}>{visible(sha256.slice(0, 16))}…</code>
                </span>
                <span role="cell">
                  <span class={`pin ${pin}`}>
                    {pin === 'none' ? 'not pinned' : pin === 'same' ? 'matches the pin' : 'changed since it was pinned'}
                  </span>
                </span>
              </>
            )}
          />
        </div>
      ))}
    </section>
  );
}

interface TestResult {
  readonly ok: boolean;
  readonly duration_ms: number;
  readonly tools: readonly { readonly name: string; readonly description: string; readonly allowed: boolean }[];
  readonly error: { readonly code: string; readonly message: string } | null;
}

function TestButton({ path }: { readonly path: string }) {
  const [state, setState] = useState<'idle' | 'running' | TestResult | ApiError>('idle');
  const run = async () => {
    setState('running');
    setState(await post<TestResult>(`${path}/test`, {}).catch((error: ApiError) => error));
  };
  const isOpen = typeof state === 'object';
  return (
    <>
      <button type="button" disabled={state === 'running'} onClick={run}>
        {state === 'running' ? 'Connecting…' : 'Test connection'}
      </button>
      {isOpen ? (
        <Dialog title="Connection test" onClose={() => setState('idle')}>
          {state instanceof ApiError ? <Failure error={state} /> : <TestOutcome result={state} />}
        </Dialog>
      ) : null}
    </>
  );
}

function TestOutcome({ result }: { readonly result: TestResult }) {
  if (result.error !== null) {
    return (
      <div class="notice bad" role="alert">
        <strong>
          The server did not respond (<UntrustedText text={result.error.code} chars={60} />)
        </strong>
        <p>
          <UntrustedText text={result.error.message} chars={2_000} />
        </p>
      </div>
    );
  }
  return (
    <>
      <p class="notice good" role="status">
        The server responded in {latency(result.duration_ms)} with {counted(result.tools.length, 'tool')}.
      </p>
      <ul class="rows">
        {result.tools.slice(0, 100).map(({ name, description, allowed }) => (
          <li key={name}>
            <code>
              <UntrustedText text={name} chars={80} />
            </code>
            <span class="grow muted">
              <UntrustedText text={description} chars={200} />
            </span>
            <span>{allowed ? 'allowed' : 'not allowed'}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Removal(props: { readonly path: string; readonly server: ServerJson; readonly close: () => void }) {
  const [error, setError] = useState<ApiError | null>(null);
  const remove = async () => {
    try {
      await request<JsonObject>('DELETE', props.path, { ifMatch: `"${props.server.mod_revision}"` });
      location.hash = linkTo('servers');
    } catch (failed) {
      setError(failed as ApiError);
    }
  };
  return (
    <Dialog title={`Remove ${props.server.server_id}?`} onClose={props.close}>
      <p>Every node rejects new calls to this server and cancels its calls in flight.</p>
      {error === null ? null : <Failure error={error} />}
      <div class="actions">
        <button type="button" class="danger" onClick={remove}>
          Remove server
        </button>
        <button type="button" onClick={props.close}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}
