import { useMemo, useState } from 'preact/hooks';
import { startOf, visible } from '../../base/text.ts';
import type { RunJson, RunsJson } from '../../registry/console-api.ts';
import { linkTo, useResource, useTick } from '../hooks.ts';
import { Empty, Failure, Loading, PageHead } from '../parts.tsx';
import { ago, counted, UntrustedText } from '../text.tsx';
import { VirtualList } from '../virtual-list.tsx';

const ROW_PX = 56;
const statuses = ['', 'running', 'waiting', 'parked', 'queued', 'succeeded', 'failed', 'cancelled', 'dead'];

/** Runs of all nodes: active runs and the most recently ended ones. */
export function Runs() {
  const { value, error, again } = useResource<RunsJson>('/admin/api/runs?limit=5000', ['runs']);
  const [text, setText] = useState('');
  const [status, setStatus] = useState('');
  useTick(5_000);
  const runs = value?.runs ?? [];
  const shown = useMemo(
    () => runs.filter((run) => (status === '' || run.status === status) && says(run, text.toLowerCase())),
    [runs, text, status],
  );
  const tokens = shown.reduce((sum, { cost }) => sum + (cost?.total_tokens ?? 0), 0);
  return (
    <>
      <PageHead title="Runs" />
      {error === null ? null : <Failure error={error} again={again} />}
      {value === null && error === null ? <Loading /> : null}
      {value !== null && runs.length === 0 ? (
        <Empty title="No runs reported recently">
          <p>
            A node connected to this registry reports its unfinished runs and the most recent ended runs. Start a node
            with <code>spearlet --sms ADDRESS</code>, then submit a run with <code>spear run TASK</code>. Runs disappear
            from this page a minute after the last report of their node; the node retains them.
          </p>
        </Empty>
      ) : null}
      {runs.length === 0 ? null : (
        <>
          <div class="filters">
            <input
              type="search"
              placeholder="Search task, user, node"
              aria-label="Search runs"
              value={text}
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
            <select
              aria-label="Filter by status"
              value={status}
              onChange={({ currentTarget }) => setStatus(currentTarget.value)}
            >
              {statuses.map((name) => (
                <option key={name} value={name}>
                  {name === '' ? 'all statuses' : name}
                </option>
              ))}
            </select>
            <span class="muted" role="status">
              {counted(shown.length, 'run')}, {counted(tokens, 'token')}
            </span>
          </div>
          <VirtualList
            items={shown}
            rowPx={ROW_PX}
            label="Runs"
            rowClass="run-row"
            keyOf={({ id }) => id}
            head={<Head />}
            row={(run) => <Row run={run} />}
          />
        </>
      )}
    </>
  );
}

function says({ id, namespace, task, submitted_by, node }: RunJson, text: string): boolean {
  return [id, `${namespace}/${task}`, submitted_by, node].some((field) => field.toLowerCase().includes(text));
}

function Head() {
  return (
    <>
      <span role="columnheader">Status</span>
      <span role="columnheader">Task</span>
      <span role="columnheader">User</span>
      <span role="columnheader" class="wide">
        Node
      </span>
      <span role="columnheader">Cost</span>
      <span role="columnheader">Submitted</span>
    </>
  );
}

/** Servers whose tools were unavailable to the run. */
export const degradedText = ({ degraded }: RunJson) =>
  (degraded ?? []).map(({ server, reason }) => `no tools of server ${server}: ${reason}`).join('; ');

function Degraded({ run }: { readonly run: RunJson }) {
  const text = degradedText(run);
  if (text === '') return null;
  return (
    <span class="muted" title={visible(startOf(text, 300))}>
      <UntrustedText text={`degraded: ${text}`} chars={120} />
    </span>
  );
}

function Row({ run }: { readonly run: RunJson }) {
  const { cost } = run;
  return (
    <>
      <span role="cell" class="stack">
        <RunStatus status={run.status} />
        <Degraded run={run} />
      </span>
      <span role="cell" class="stack">
        <a href={linkTo('runs', run.id)}>
          <UntrustedText text={run.task} chars={63} />
        </a>
        <span class="muted clip">
          <UntrustedText text={`${run.namespace} · revision ${run.revision}`} chars={80} />
        </span>
      </span>
      <span role="cell" class="clip">
        <UntrustedText text={run.submitted_by} chars={60} />
      </span>
      <span role="cell" class="wide clip">
        <UntrustedText text={run.node} chars={60} />
      </span>
      <span role="cell" class="stack">
        <span>{cost === null ? '–' : counted(cost.total_tokens, 'token')}</span>
        <span class="muted">{cost === null ? '' : calls(cost)}</span>
      </span>
      <span role="cell" class="stack">
        <span>{ago(Date.now() - run.submitted_at_ms)}</span>
        <span class="muted">{tookText(run)}</span>
      </span>
    </>
  );
}

export const calls = ({ model_calls, tool_calls }: NonNullable<RunJson['cost']>) =>
  `${counted(model_calls, 'model call')}, ${counted(tool_calls, 'tool call')}`;

/** Duration of a run so far. */
export function tookText({ started_at_ms: started, ended_at_ms: ended }: RunJson): string {
  if (started === null) return 'not started';
  const seconds = Math.max(0, (ended ?? Date.now()) - started) / 1_000;
  return `${ended === null ? 'for' : 'took'} ${seconds < 60 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds / 60)} min`}`;
}

/** A label with a mark that differs by shape. */
export function RunStatus({ status }: { readonly status: string }) {
  const known = statuses.includes(status) && status !== '' ? status : 'unknown';
  return (
    <span class={`run-status ${known}`}>
      <UntrustedText text={status} chars={20} />
    </span>
  );
}
