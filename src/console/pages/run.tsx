import { useState } from 'preact/hooks';
import { visible } from '../../base/text.ts';
import type { RunJson } from '../../registry/console-api.ts';
import type { RunPicture, RunPictureRow } from '../../server/timeline/run-picture.ts';
import { useResource, useTick } from '../hooks.ts';
import { Failure, Loading, PageHead } from '../parts.tsx';
import { mayReadJournals } from '../sign-in.tsx';
import { clock, counted, UntrustedBlock, UntrustedText } from '../text.tsx';
import { calls, degradedText, RunStatus, tookText } from './runs.tsx';

/** Rows rendered initially. */
const ROWS = 300;

/** One run: its record and its timeline. */
export function Run({ id }: { readonly id: string }) {
  const { value: run, error, again } = useResource<RunJson>(`/admin/api/runs/${encodeURIComponent(id)}`, ['runs']);
  useTick(1_000);
  return (
    <>
      <PageHead title={run === null ? id : run.task} />
      {error === null ? null : <Failure error={error} again={again} />}
      {run === null && error === null ? <Loading /> : null}
      {run === null ? null : (
        <>
          <Facts run={run} />
          <h2>Timeline</h2>
          <Timeline run={run} />
        </>
      )}
    </>
  );
}

function Facts({ run }: { readonly run: RunJson }) {
  const { exit, cost } = run;
  const ending = [exit?.reason, exit?.code, exit?.message].filter((part) => part != null).join(' ');
  const facts: readonly (readonly [string, string])[] = [
    ['Run', run.id],
    ['Task', `${run.namespace}/${run.task}, revision ${run.revision}`],
    ['Submitted', `${clock(run.submitted_at_ms)} by ${run.submitted_by}`],
    ['Node', `${run.node}, ${counted(run.attempts, 'attempt')}`],
    ['Started', run.started_at_ms === null ? '' : `${clock(run.started_at_ms)}, ${tookText(run)}`],
    ['Ended', run.ended_at_ms === null ? '' : `${clock(run.ended_at_ms)}: ${ending}`],
    ['Waits for', run.status_reason ?? ''],
    ['Degraded', degradedText(run)],
    ['Cost', cost === null ? '' : `${counted(cost.total_tokens, 'token')}, ${calls(cost)}`],
  ];
  return (
    <dl class="facts">
      <div>
        <dt>Status</dt>
        <dd>
          <RunStatus status={run.status} />
        </dd>
      </div>
      {facts
        .filter(([, text]) => text !== '')
        .map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <UntrustedText text={text} />
            </dd>
          </div>
        ))}
    </dl>
  );
}

function Timeline({ run }: { readonly run: RunJson }) {
  const may = mayReadJournals();
  // Requested only when the run has changed or by hand, because its node reads a journal for it.
  const path = may ? `/admin/api/runs/${encodeURIComponent(run.id)}/timeline?at=${run.status}-${run.attempts}` : null;
  const { value, error, again } = useResource<RunPicture>(path, []);
  if (!may) {
    return (
      <p class="muted">
        You need the journals permission to see this timeline. An admin who has this permission can create a token with
        it: <code>spear tokens create NAME --role viewer --journals</code>.
      </p>
    );
  }
  return (
    <>
      {error === null ? null : <Failure error={error} again={again} />}
      {value === null && error === null ? <Loading /> : null}
      {value === null ? null : <Waterfall picture={value} again={again} />}
    </>
  );
}

function Waterfall({ picture, again }: { readonly picture: RunPicture; readonly again: () => void }) {
  const [shown, setShown] = useState(ROWS);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const kinds = [...new Set(picture.rows.map(({ kind }) => kind))];
  const rows = picture.rows.filter(({ kind }) => !hidden.has(kind));
  const toggle = (kind: string) => {
    const next = new Set(hidden);
    if (!next.delete(kind)) next.add(kind);
    setHidden(next);
  };
  return (
    <section aria-label="Timeline" class="waterfall">
      <p class={`end ${picture.state}`}>
        <UntrustedText text={picture.end} />{' '}
        <span class="muted">{picture.totals.map((total) => visible(total)).join(' · ')}</span>
      </p>
      <div class="filters">
        {kinds.map((kind) => (
          <label key={kind} class="check">
            <input type="checkbox" checked={!hidden.has(kind)} onChange={() => toggle(kind)} />{' '}
            <UntrustedText text={kind} chars={20} />
          </label>
        ))}
        <button type="button" class="quiet" onClick={again}>
          Reload
        </button>
      </div>
      <div class="ticks" aria-hidden="true">
        {picture.ticks.map((tick, at) => (
          <span key={at}>
            <UntrustedText text={tick} chars={20} />
          </span>
        ))}
      </div>
      <ol>
        {rows.slice(0, shown).map((row, at) => (
          <li key={at}>
            <Step row={row} axis={picture.axis} />
          </li>
        ))}
      </ol>
      {rows.length > shown ? (
        <button type="button" onClick={() => setShown(shown + ROWS)}>
          Show {Math.min(ROWS, rows.length - shown)} more of {rows.length}
        </button>
      ) : null}
      {picture.left_out > 0 ? (
        <p class="muted">
          {counted(picture.left_out, 'entry', 'entries')} not shown here. Use <code>spear journal show</code> on the
          node to see all entries.
        </p>
      ) : null}
    </section>
  );
}

const drawn: ReadonlySet<string> = new Set(['send', 'model', 'tool', 'approval', 'wait', 'input', 'output', 'stream']);

function Step({ row, axis }: { readonly row: RunPictureRow; readonly axis: number }) {
  const kind = drawn.has(row.kind) ? row.kind : 'other';
  const names = `step ${kind} ${row.status}${row.inside ? ' inside' : ''}`;
  const head = (
    <span class="step-head">
      <span class="at">
        <UntrustedText text={row.at} chars={20} />
      </span>
      <span class="took">
        <UntrustedText text={row.took} chars={20} />
      </span>
      <span class="kind">
        <UntrustedText text={row.kind} chars={20} />
      </span>
      <span class="about">
        <strong>
          <UntrustedText text={row.title} chars={200} />
        </strong>{' '}
        {row.facts.slice(0, 12).map((fact, at) => (
          <span key={at} class="fact">
            <UntrustedText text={fact} chars={200} />{' '}
          </span>
        ))}
        <span class="preview">
          <UntrustedText text={row.preview} chars={200} />
        </span>
      </span>
      <svg class="bar" viewBox={`0 0 ${axis} 10`} preserveAspectRatio="none" aria-hidden="true">
        <rect x={row.x} y={1} width={row.width} height={8} />
      </svg>
    </span>
  );
  if (row.texts.length === 0) return <div class={names}>{head}</div>;
  return (
    <details class={names} open={row.status !== 'ok'}>
      <summary>{head}</summary>
      {row.texts.slice(0, 50).map(({ label, text, cut }, at) => (
        <figure key={at}>
          {label === '' ? null : (
            <figcaption>
              <UntrustedText text={label} chars={200} />
            </figcaption>
          )}
          <UntrustedBlock text={text} label={visible(`${row.title} ${label}`).slice(0, 200)} />
          {cut === '' ? null : (
            <p class="muted">
              <UntrustedText text={cut} />
            </p>
          )}
        </figure>
      ))}
    </details>
  );
}
