import { ApiError, get, post, rememberToken, request } from './api.ts';

/** How somebody can come in. */
export interface LoginOptions {
  /** Whether an identity provider can be asked who it is. */
  readonly login: boolean;
  /** With TLS a login is a cookie; without, a token that this page keeps. */
  readonly session: 'cookie' | 'token';
  /** Whether anybody is asked at all. */
  readonly auth: boolean;
}

/** The one thing that has to outlive the way to the provider and back: of no use without the code that comes back. */
const SECRET = 'spear-login';

export async function readLoginOptions(): Promise<LoginOptions> {
  try {
    return await get<LoginOptions>('/auth/options');
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { login: false, session: 'token', auth: true };
    throw error;
  }
}

/** Leaves for the provider, which sends the browser back with a code. */
export async function beginLogin(): Promise<void> {
  const secret = hex(crypto.getRandomValues(new Uint8Array(32)));
  sessionStorage.setItem(SECRET, secret);
  const challenge = hex(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(secret))));
  location.assign(`/auth/login?${new URLSearchParams({ challenge, return_to: '/console/' })}`);
}

/** Takes the session that a login left, if the browser comes from one. */
export async function finishLogin(): Promise<void> {
  const code = /^#login=([\w-]+)$/.exec(location.hash)?.[1];
  if (code === undefined) return;
  history.replaceState(null, '', '/console/');
  const secret = sessionStorage.getItem(SECRET) ?? '';
  sessionStorage.removeItem(SECRET);
  const { token } = await post<{ readonly token?: string }>('/auth/exchange', { code, secret });
  if (token !== undefined) rememberToken(token);
}

/** Also where nobody is there to hear it: what is forgotten here is of no use to anybody else. */
export async function endLogin(): Promise<void> {
  await request('POST', '/auth/logout', { json: {} }).catch(() => {});
}

const hex = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
