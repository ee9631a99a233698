import type { FieldProblemJson, MeJson } from '../registry/console-api.ts';

/** Response timeout. The test of a server takes as long as its own timeouts allow. */
const TIMEOUT_MS = 20_000;
const TEST_TIMEOUT_MS = 90_000;

/** Error response of the registry. */
export class ApiError extends Error {
  /** 0 if the registry was unreachable. */
  readonly status: number;
  readonly kind: string;
  readonly errors: readonly FieldProblemJson[];

  constructor(status: number, kind: string, message: string, errors: readonly FieldProblemJson[] = []) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.kind = kind;
    this.errors = errors;
  }
}

export interface Answer<T> {
  readonly body: T;
  readonly etag: string | null;
}

export interface RequestOptions {
  readonly json?: unknown;
  readonly ifMatch?: string;
  readonly signal?: AbortSignal;
}

/**
 * The token of the user. It is kept only in this variable: storage and cookies of a loopback address are shared with all
 * its ports, and so with servers of other users.
 */
let token: string | null = null;
let onSignedOut: () => void = () => {};

export function rememberToken(given: string | null): void {
  token = given;
}

/** Called when the registry rejects the token. */
export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

/** The registry rejected the token. */
export function signedOut(): void {
  onSignedOut();
}

export function authHeaders(): Record<string, string> {
  // Changes by a session cookie require this header, which pages of other origins cannot send.
  return token === null ? { 'x-spear-session': 'console' } : { authorization: `Bearer ${token}` };
}

export async function request<T>(method: string, path: string, options: RequestOptions = {}): Promise<Answer<T>> {
  const deadline = AbortSignal.timeout(path.endsWith('/test') ? TEST_TIMEOUT_MS : TIMEOUT_MS);
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers: {
        ...authHeaders(),
        ...(options.json === undefined ? {} : { 'content-type': 'application/json' }),
        ...(options.ifMatch === undefined ? {} : { 'if-match': options.ifMatch }),
      },
      body: options.json === undefined ? null : JSON.stringify(options.json),
      signal: options.signal === undefined ? deadline : AbortSignal.any([options.signal, deadline]),
      cache: 'no-store',
      redirect: 'error',
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    const why = deadline.aborted ? 'timeout' : 'the registry is unreachable';
    throw new ApiError(0, 'unreachable', `no response to ${method} ${path}: ${why}`);
  }
  if (!response.ok) throw await problemOf(response, method, path);
  const body = response.status === 204 ? null : await response.json();
  return { body: body as T, etag: response.headers.get('etag') };
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await request<T>('GET', path, signal === undefined ? {} : { signal })).body;
}

export async function post<T>(path: string, json: unknown, signal?: AbortSignal): Promise<T> {
  return (await request<T>('POST', path, { json, ...(signal === undefined ? {} : { signal }) })).body;
}

/** Does not send a request: one without a token would be a denial in the audit log. */
export function hasToken(): boolean {
  return token !== null;
}

export function readMe(): Promise<MeJson> {
  return get<MeJson>('/admin/api/me');
}

async function problemOf(response: Response, method: string, path: string): Promise<ApiError> {
  if (response.status === 401) signedOut();
  const said = (await response.json().catch(() => null)) as {
    readonly type?: unknown;
    readonly detail?: unknown;
    readonly errors?: readonly FieldProblemJson[];
  } | null;
  const kind = typeof said?.type === 'string' ? said.type.replace('urn:spear:problem:', '') : 'unknown';
  const detail =
    typeof said?.detail === 'string' ? said.detail : `${method} ${path} returned status ${response.status}`;
  return new ApiError(response.status, kind, detail, Array.isArray(said?.errors) ? said.errors : []);
}
