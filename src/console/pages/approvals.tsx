import { useState } from 'preact/hooks';
import type { JsonObject } from '../../base/json.ts';
import type { Approval, ApprovalDecision, ApprovalStatus, DefinitionChange } from '../../server/records/approval.ts';
import { type ApiError, get, request } from '../api.ts';
import { DiffView } from '../diff-view.tsx';
import { linkTo, useResource, useTick } from '../hooks.ts';
import { Empty, Fact, Failure, Loading, PageHead } from '../parts.tsx';
import { isAnonymous, mayDecide } from '../sign-in.tsx';
import { ago, asJson, BLOCK_CHARS, clock, counted, duration, UntrustedBlock, UntrustedText } from '../text.tsx';

type Listed = Omit<Approval, 'salt' | 'claim' | 'epoch' | 'definition' | 'changes'> & {
  readonly arguments_shortened: boolean;
  readonly changed: boolean;
  readonly decided_by: readonly string[];
  readonly left_ms: number;
};
type Shown = Listed & {
  readonly definition: JsonObject;
  readonly changes: readonly DefinitionChange[];
  /** Why the user may not decide; null if the user may. */
  readonly why_not: string | null;
};

const PATH = '/admin/api/approvals';

/** Pending and decided approvals. */
export function Approvals() {
  const [waits, setWaits] = useState(true);
  const path = waits ? `${PATH}?status=waiting` : PATH;
  const { value, error, again } = useResource<{ approvals: readonly Listed[]; total: number }>(path, ['approvals']);
  useTick(1_000);
  return (
    <>
      <PageHead title="Approvals">
        <div class="segments" role="group" aria-label="Filter approvals">
          <button type="button" aria-pressed={waits} onClick={() => setWaits(true)}>
            waiting
          </button>
          <button type="button" aria-pressed={!waits} onClick={() => setWaits(false)}>
            all
          </button>
        </div>
      </PageHead>
      {error === null ? null : <Failure error={error} again={again} />}
      {value === null && error === null ? <Loading /> : null}
      {value?.approvals.length === 0 ? (
        <Empty title={waits ? 'No pending approvals' : 'No approvals yet'}>
          <p>
            Calls appear here when a node runs with <code>--approve sms</code> and the server or a rule requires
            approval.
          </p>
        </Empty>
      ) : null}
      <ul class="rows requests">
        {value?.approvals.map((each) => (
          <li key={each.approval_id}>
            <Status status={each.status} />
            <span class="stack grow">
              <a href={linkTo('approvals', each.approval_id)}>
                <UntrustedText text={`${each.server_id} › ${each.tool_name}`} chars={120} />
              </a>
              <code class="muted clip">
                <UntrustedText text={JSON.stringify(each.arguments)} chars={160} />
              </code>
            </span>
            <span class="stack">
              <span>
                <UntrustedText text={each.task ?? 'unnamed task'} chars={60} />
              </span>
              <span class="muted">
                {each.changed ? 'definition changed · ' : ''}
                {ago(Date.now() - each.created_at_ms)}
              </span>
            </span>
          </li>
        ))}
      </ul>
      {value !== null && value.total > value.approvals.length ? (
        <p class="muted">
          Showing the newest {value.approvals.length} of {value.total}.
        </p>
      ) : null}
    </>
  );
}

function Status({ status }: { readonly status: ApprovalStatus }) {
  return (
    <span class={`approval ${status}`}>
      <UntrustedText text={status} chars={20} />
    </span>
  );
}

/** One approval: the call, its caller, and what changed since the last approval. */
export function ApprovalPage({ id }: { readonly id: string }) {
  const path = `${PATH}/${encodeURIComponent(id)}`;
  const { value, error, again } = useResource<Shown>(path, ['approvals']);
  useTick(1_000);
  return (
    <>
      <PageHead title="Approval" />
      <p>
        <a href={linkTo('approvals')}>All approvals</a>
      </p>
      {error === null ? null : <Failure error={error} again={again} />}
      {value === null && error === null ? <Loading /> : null}
      {value === null ? null : <Request key={value.approval_id} approval={value} path={path} again={again} />}
    </>
  );
}

function Request({ approval, path, again }: { approval: Shown; path: string; again: () => void }) {
  const { status, changes, needed, votes } = approval;
  const [whole, setWhole] = useState<JsonObject | null>(null);
  const isShown = whole !== null || !hidesArguments(approval);
  return (
    <>
      <h2>
        <Status status={status} /> <UntrustedText text={`${approval.server_id} › ${approval.tool_name}`} chars={200} />
      </h2>
      <dl class="facts">
        <Fact name="Task" text={approval.task ?? 'unnamed'} />
        <Fact name="Run" text={`${approval.run}, call ${approval.ordinal}`} />
        <Fact
          name={approval.submitted_by === null ? 'Requested by' : 'Submitted by'}
          text={`${approval.submitted_by ?? approval.requested_by ?? 'a node'} on ${approval.node_id}`}
        />
        <Fact name="Namespace" text={approval.namespace} />
        <Fact name="Reason for approval" text={approval.cause.text} />
        <Fact name="Required approvers" text={`${needed}${approval.rule === null ? '' : ` (rule ${approval.rule})`}`} />
        <Fact name="Requested" text={clock(approval.created_at_ms)} />
        {status === 'waiting' ? (
          <Fact name="Expires in" text={duration(Math.max(0, approval.expires_at_ms - Date.now()))} />
        ) : null}
      </dl>
      <Arguments approval={approval} path={path} whole={whole} setWhole={setWhole} />
      <section aria-labelledby="changes-title">
        <h2 id="changes-title">Changes since the last approval</h2>
        {changes.length === 0 ? (
          <p class="muted">The tool definition did not change.</p>
        ) : (
          changes.map(({ path: place, before, after }) => (
            <div key={place}>
              <h3>
                <code>
                  <UntrustedText text={place} />
                </code>
              </h3>
              <DiffView
                label={`Change of ${place}`}
                before={before === undefined ? '' : asJson(before)}
                after={after === undefined ? '' : asJson(after)}
              />
            </div>
          ))
        )}
      </section>
      <details>
        <summary>Tool definition</summary>
        <UntrustedBlock label="Definition" text={asJson(approval.definition)} />
      </details>
      {votes.length === 0 ? null : (
        <section aria-labelledby="votes-title">
          <h2 id="votes-title">Votes</h2>
          <ul class="rows">
            {votes.map((vote) => (
              <li key={`${vote.by} ${vote.at_ms}`}>
                <strong>
                  <UntrustedText text={vote.by ?? 'unnamed user'} chars={80} />
                </strong>
                <span>
                  <UntrustedText text={vote.decision.replace('_', ' ')} chars={30} />
                </span>
                <span class="grow">
                  <UntrustedText text={vote.reason ?? ''} chars={600} />
                </span>
                <span class="muted">{clock(vote.at_ms)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {approval.reason === null ? null : (
        <p class="notice">
          <UntrustedText text={approval.reason} chars={600} />
        </p>
      )}
      {status === 'waiting' ? <Decide approval={approval} path={path} again={again} isShown={isShown} /> : null}
    </>
  );
}

/** Whether the page initially shows only a part of the arguments. */
const hidesArguments = (approval: Shown) =>
  approval.arguments_shortened || asJson(approval.arguments).length > BLOCK_CHARS;

interface ArgumentsProps {
  readonly approval: Shown;
  readonly path: string;
  /** All arguments; null until they are requested. */
  readonly whole: JsonObject | null;
  readonly setWhole: (whole: JsonObject) => void;
}

function Arguments({ approval, path, whole, setWhole }: ArgumentsProps) {
  const [error, setError] = useState<ApiError | null>(null);
  const read = async () => {
    try {
      setWhole((await get<{ arguments: JsonObject }>(`${path}/arguments`)).arguments);
    } catch (failed) {
      setError(failed as ApiError);
    }
  };
  return (
    <section aria-labelledby="arguments-title">
      <h2 id="arguments-title">Arguments of the call</h2>
      <UntrustedBlock label="Arguments" text={asJson(whole ?? approval.arguments)} all={whole !== null} />
      {approval.status === 'waiting' && hidesArguments(approval) && whole === null && mayDecide() ? (
        <button type="button" onClick={read}>
          Show all arguments
        </button>
      ) : null}
      {error === null ? null : <Failure error={error} />}
    </section>
  );
}

interface DecideProps {
  readonly approval: Shown;
  readonly path: string;
  readonly again: () => void;
  /** Whether the page shows all arguments. */
  readonly isShown: boolean;
}

function Decide({ approval, path, again, isShown }: DecideProps) {
  const [reason, setReason] = useState('');
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  if (!mayDecide() || approval.why_not !== null) {
    return (
      <p class="notice" role="status">
        <UntrustedText
          text={approval.why_not ?? 'You can view this approval. Deciding it needs the approver role.'}
          chars={400}
        />
      </p>
    );
  }
  const decide = async (decision: ApprovalDecision) => {
    setBusy(true);
    try {
      const json = { decision, reason: reason.trim() === '' ? null : reason };
      await request('POST', `${path}/decision`, { json, ifMatch: `"${approval.mod_revision}"` });
      setError(null);
    } catch (failed) {
      setError(failed as ApiError);
    }
    setBusy(false);
    again();
  };
  return (
    <section class="decide" aria-labelledby="decide-title">
      <h2 id="decide-title">Your decision</h2>
      <div class="field">
        <label for="reason">Reason</label>
        <input
          id="reason"
          type="text"
          maxLength={500}
          value={reason}
          placeholder="shown to the model if you deny"
          onInput={({ currentTarget }) => setReason(currentTarget.value)}
        />
      </div>
      {error === null ? null : <Failure error={error} />}
      <div class="actions">
        <button type="button" class="primary" disabled={busy || !isShown} onClick={() => decide('allow_once')}>
          Allow once
        </button>
        <button type="button" disabled={busy || !isShown} onClick={() => decide('allow_session')}>
          Allow for this session
        </button>
        <button type="button" class="danger" disabled={busy} onClick={() => decide('deny')}>
          Deny
        </button>
      </div>
      {isShown ? null : <p class="muted">Show all arguments of the call before you allow it.</p>}
      {isAnonymous() ? (
        <p class="muted">
          Authentication is off, so users have no names: the submitter of a run can approve its calls here.
        </p>
      ) : null}
      {approval.needed > 1 ? <p class="muted">{counted(approval.needed, 'approver')} must allow this call.</p> : null}
    </section>
  );
}
