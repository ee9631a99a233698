import { useState } from 'preact/hooks';
import { visible } from '../../base/text.ts';
import { roles } from '../../server/records/permissions.ts';
import { ApiError, post, request } from '../api.ts';
import { useResource } from '../hooks.ts';
import { Dialog, Empty, Failure, Loading, PageHead } from '../parts.tsx';
import { mayAdminister, whoIsIt } from '../sign-in.tsx';
import { clock, UntrustedText } from '../text.tsx';

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

/** Named tokens with their roles. */
export function People() {
  if (!mayAdminister()) return <Myself />;
  return <Tokens />;
}

function Myself() {
  const who = whoIsIt();
  const namespace = who?.namespace === '*' ? 'all namespaces' : `the namespace ${who?.namespace}`;
  return (
    <>
      <PageHead title="Users" />
      <Empty title={visible(`Signed in as ${who?.name ?? 'unknown'}`)}>
        <p>
          <UntrustedText text={`Your role is ${who?.roles.join(', ')}, in ${namespace}.`} /> Only an admin can list
          users and tokens.
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
      <PageHead title="Users">
        <button type="button" class="primary" onClick={() => setMaking(true)}>
          Create a token
        </button>
      </PageHead>
      {error === null ? null : <Failure error={error} again={again} />}
      {failed === null ? null : <Failure error={failed} />}
      {value === null && error === null ? <Loading /> : null}
      {value?.tokens.length === 0 ? (
        <Empty title="No named tokens yet">
          <p>
            All users share <code>admin.token</code> and <code>node.token</code>. Create a token for each user and
            program, so that the audit log names the caller.
          </p>
        </Empty>
      ) : null}
      <ul class="rows">
        {value?.tokens.map((token) => (
          <li key={token.name}>
            <span class="stack grow">
              <strong>
                <UntrustedText text={token.name} chars={80} />
              </strong>
              <span class="muted">
                <UntrustedText
                  text={token.description || `created by ${token.created_by ?? 'the registry'}`}
                  chars={120}
                />
              </span>
            </span>
            <span>
              <UntrustedText text={token.roles.join(', ')} chars={80} />
            </span>
            <span class="muted">
              {token.namespace === '*' ? 'all namespaces' : <UntrustedText text={token.namespace} chars={63} />}
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
        <Dialog title={`Token of ${made.name}`} onClose={() => setMade(null)}>
          <p>The token is shown only once. Copy it now; the registry stores only its hash.</p>
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
          <p>Requests with this token are rejected immediately, and its open connections are closed.</p>
          <div class="actions">
            <button
              type="button"
              class="danger"
              onClick={() => {
                setDoomed(null);
                void revoke(doomed);
              }}
            >
              Revoke token
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
    <Dialog title="Create a token" onClose={props.close}>
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
          <span class="hint">name of the user or program</span>
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
          Create
        </button>
      </form>
    </Dialog>
  );
}
