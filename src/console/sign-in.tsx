import { useState } from 'preact/hooks';
import { type ApiError, rememberToken } from './api.ts';
import { beginLogin } from './login.ts';
import { Told } from './text.tsx';

interface SignInProps {
  readonly hasProvider: boolean;
  readonly wasSignedOut: boolean;
  /** Of a login that failed; null: none did. */
  readonly error: ApiError | null;
  /** Gives why not; null: they are in. */
  readonly enter: () => Promise<ApiError | null>;
}

/** Asks who it is. A token is kept by this page alone, and gone when it is closed. */
export function SignIn({ hasProvider, wasSignedOut, enter, error }: SignInProps) {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState<string | null>(
    wasSignedOut ? 'You are signed out: the token was revoked or has expired.' : (error?.message ?? null),
  );
  const submit = async (event: Event) => {
    event.preventDefault();
    rememberToken(token.trim());
    const failed = await enter();
    if (failed === null) return;
    rememberToken(null);
    const advice =
      'The registry does not know this token. Check that you copied the whole token, or request a new one.';
    setProblem(failed.status === 401 ? advice : failed.message);
  };
  return (
    <main class="narrow sign-in">
      <span class="logo" aria-hidden="true" />
      <h1>Spear console</h1>
      {hasProvider ? (
        <p>
          <button type="button" class="primary" onClick={() => void beginLogin()}>
            Sign in with your identity provider
          </button>
        </p>
      ) : null}
      <form onSubmit={submit}>
        <div class="field">
          <label for="token">Token</label>
          <input
            id="token"
            type="password"
            autocomplete="off"
            spellcheck={false}
            required
            aria-describedby="token-hint"
            value={token}
            onInput={({ currentTarget }) => setToken(currentTarget.value)}
          />
          <span class="hint" id="token-hint">
            Your token, created with <code>spear tokens create</code>, or the content of <code>admin.token</code> in the
            data directory of the registry. This page keeps the token only in memory; a reload discards it.
          </span>
        </div>
        {problem === null ? null : (
          <p class="notice bad" role="alert">
            <Told text={problem} chars={400} />
          </p>
        )}
        <button type="submit" class="primary">
          Sign in
        </button>
      </form>
    </main>
  );
}
