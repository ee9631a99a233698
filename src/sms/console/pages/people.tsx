import { useState } from 'preact/hooks';
import { visible } from '../../../base/visible-text.ts';
import { roles } from '../../../protocol/people.ts';
import { ApiError, post, request } from '../api.ts';
import { useResource } from '../hooks.ts';
import { clock } from '../numbers.ts';
import { Dialog, Empty, Failure, Loading, PageHead } from '../parts.tsx';
import { mayAdminister, whoIsIt } from '../session.ts';
import { Told } from '../text.tsx';

interface TokenJson {
  readonly name: string;
  readonly description?: string;
  readonly roles: readonly string[];
  readonly namespace: string;
  readonly created_at_ms: number;
  readonly created_by: string | null;
  readonly expires_at_ms: number | null;
  readonly last_used_at_ms: number | null;
}

const PATH = '/admin/api/tokens';

/** Who may come in: named tokens, each with its roles. */
export function People() {
  if (!mayAdminister()) return <Myself />;
  return <Tokens />;
}

function Myself() {
  const who = whoIsIt();
  const namespace = who?.namespace === '*' ? 'all namespaces' : `the namespace ${who?.namespace}`;
  return (
    <>
      <PageHead title="People" />
      <Empty title={visible(`You are ${who?.name ?? 'nobody'}`)}>
        <p>
          <Told text={`Your role is ${who?.roles.join(', ')}, in ${namespace}.`} /> Who else may come in is for an admin
          to see.
        </p>
      </Empty>
    </>
  );
}

function Tokens() {
  const { value, error, again } = useResource<{ tokens: readonly TokenJson[] }>(PATH, ['people']);
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<{ readonly name: string; readonly token: string } | null>(null);
  const [doomed, setDoomed] = useState<string | null>(null);
  const [failed, setFailed] = useState<ApiError | null>(null);
  const act = async (work: () => Promise<unknown>) => {
    try {
      await work();
      setFailed(null);
    } catch (problem) {
      setFailed(problem as ApiError);
    }
    again();
  };
  const rotate = (name: string) =>
    act(async () =>
      setMade(await post<{ name: string; token: string }>(`${PATH}/${encodeURIComponent(name)}/rotate`, {})),
    );
  const revoke = (name: string) => act(() => request('DELETE', `${PATH}/${encodeURIComponent(name)}`));
  return (
    <>
      <PageHead title="People">
        <button type="button" class="primary" onClick={() => setMaking(true)}>
          Make a token
        </button>
      </PageHead>
      {error === null ? null : <Failure error={error} again={again} />}
      {failed === null ? null : <Failure error={failed} />}
      {value === null && error === null ? <Loading /> : null}
      {value?.tokens.length === 0 ? (
        <Empty title="Only the tokens of this machine">
          <p>
            So far everybody shares <code>admin.token</code> and <code>node.token</code>. Make a token for each person
            and program, so that the trail says who it was.
          </p>
        </Empty>
      ) : null}
      <ul class="rows">
        {value?.tokens.map((token) => (
          <li key={token.name}>
            <span class="stack grow">
              <strong>
                <Told text={token.name} chars={80} />
              </strong>
              <span class="muted">
                <Told text={token.description || `made by ${token.created_by ?? 'the registry'}`} chars={120} />
              </span>
            </span>
            <span>
              <Told text={token.roles.join(', ')} chars={80} />
            </span>
            <span class="muted">
              {token.namespace === '*' ? 'all namespaces' : <Told text={token.namespace} chars={63} />}
            </span>
            <span class="muted">
              {token.last_used_at_ms === null ? 'never used' : `used ${clock(token.last_used_at_ms)}`}
            </span>
            <span class="actions">
              <button type="button" onClick={() => rotate(token.name)}>
                Rotate
              </button>
              <button type="button" class="danger" onClick={() => setDoomed(token.name)}>
                Revoke
              </button>
            </span>
          </li>
        ))}
      </ul>
      {making ? <NewToken close={() => setMaking(false)} made={setMade} again={again} /> : null}
      {made === null ? null : (
        <Dialog title={`The token of ${made.name}`} onClose={() => setMade(null)}>
          <p>It is shown this once. Copy it now; the registry keeps only its hash.</p>
          <div class="field">
            <label for="made">Token</label>
            <input
              id="made"
              class="code"
              readOnly
              value={made.token}
              onFocus={({ currentTarget }) => currentTarget.select()}
            />
          </div>
        </Dialog>
      )}
      {doomed === null ? null : (
        <Dialog title={`Revoke ${doomed}?`} onClose={() => setDoomed(null)}>
          <p>Whatever uses it is refused from this moment, and its open connections end.</p>
          <div class="actions">
            <button
              type="button"
              class="danger"
              onClick={() => {
                setDoomed(null);
                void revoke(doomed);
              }}
            >
              Revoke it
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function NewToken(props: {
  readonly close: () => void;
  readonly made: (made: { name: string; token: string }) => void;
  readonly again: () => void;
}) {
  const [name, setName] = useState('');
  const [role, setRole] = useState('viewer');
  const [error, setError] = useState<ApiError | null>(null);
  const make = async (event: Event) => {
    event.preventDefault();
    try {
      props.made(await post<{ name: string; token: string }>(PATH, { name, roles: [role] }));
      props.close();
      props.again();
    } catch (failed) {
      setError(failed instanceof ApiError ? failed : new ApiError(0, 'page', String(failed)));
    }
  };
  return (
    <Dialog title="Make a token" onClose={props.close}>
      <form onSubmit={make}>
        <div class="field">
          <label for="token-name">Name</label>
          <input
            id="token-name"
            type="text"
            required
            autocomplete="off"
            value={name}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
          <span class="hint">of the person or the program</span>
        </div>
        <div class="field">
          <label for="token-role">Role</label>
          <select id="token-role" value={role} onChange={({ currentTarget }) => setRole(currentTarget.value)}>
            {roles.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </div>
        {error === null ? null : <Failure error={error} />}
        <button type="submit" class="primary">
          Make it
        </button>
      </form>
    </Dialog>
  );
}
