import { useState } from 'preact/hooks';
import type { MeJson } from '../registry/console-api.ts';
import { ApiError, get, post, rememberToken, request } from './api.ts';
import { UntrustedText } from './text.tsx';

interface SignInProps {
  readonly hasProvider: boolean;
  readonly wasSignedOut: boolean;
  /** Error of a failed login; null: none. */
  readonly error: ApiError | null;
  /** Resolves with the reason of a failure; null on success. */
  readonly enter: () => Promise<ApiError | null>;
}

/** Sign-in form. The page keeps the token only in memory. */
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
            <UntrustedText text={problem} chars={400} />
          </p>
        )}
        <button type="submit" class="primary">
          Sign in
        </button>
      </form>
    </main>
  );
}

type Who = MeJson | null;

let who: Who = null;

/** The signed-in user. Pages hide actions that the registry would reject; the registry decides. */
export function setWho(given: Who): void {
  who = given;
}

export function whoIsIt(): Who {
  return who;
}

const may = (permission: string) => who?.may.includes(permission) ?? false;
/** A user of one namespace cannot change what all namespaces share. */
const isOfAll = () => who?.namespace === '*';

export const mayOperate = () => may('operate') && isOfAll();
export const mayDecide = () => may('decide');
export const mayAdminister = () => may('administer') && isOfAll();
export const mayReadJournals = () => who?.read_journals ?? false;
/** Name of every caller if authentication is off. No token can have this name. */
export const isAnonymous = () => who?.name === 'anybody';

/** Available ways to sign in. */
export interface LoginOptions {
  /** Whether an identity provider is configured. */
  readonly login: boolean;
  /** With TLS the session is a cookie; without TLS, a token in this page. */
  readonly session: 'cookie' | 'token';
  /** Whether authentication is on. */
  readonly auth: boolean;
}

/** The page secret must survive the redirect to the provider. It is useless without the returned code. */
const SECRET = 'spear-login';

export async function readLoginOptions(): Promise<LoginOptions> {
  try {
    return await get<LoginOptions>('/auth/options');
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { login: false, session: 'token', auth: true };
    throw error;
  }
}

/** Redirects to the provider, which redirects back with a code. */
export async function beginLogin(): Promise<void> {
  const secret = hex(crypto.getRandomValues(new Uint8Array(32)));
  sessionStorage.setItem(SECRET, secret);
  const challenge = hex(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(secret))));
  location.assign(`/auth/login?${new URLSearchParams({ challenge, return_to: '/console/' })}`);
}

/** Exchanges the code of a login for a session, if the browser returns from one. */
export async function finishLogin(): Promise<void> {
  const code = /^#login=([\w-]+)$/.exec(location.hash)?.[1];
  if (code === undefined) return;
  history.replaceState(null, '', '/console/');
  const secret = sessionStorage.getItem(SECRET) ?? '';
  sessionStorage.removeItem(SECRET);
  const { token } = await post<{ readonly token?: string }>('/auth/exchange', { code, secret });
  if (token !== undefined) rememberToken(token);
}

/** Signs out. Succeeds locally even if the registry is unreachable. */
export async function endLogin(): Promise<void> {
  await request('POST', '/auth/logout', { json: {} }).catch(() => {});
}

const hex = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
