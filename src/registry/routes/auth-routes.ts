import type { SmsTrail } from '../../server/audit/sms-trail.ts';
import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { type HttpCall, jsonBody } from '../../server/http/route.ts';
import { SESSION_COOKIE, SESSION_HEADER, sessionOfCookie } from '../../server/identity/access.ts';
import { Caller } from '../../server/identity/caller.ts';
import { IssuerUnavailable } from '../../server/identity/oidc/issuer.ts';
import { LoginRefused } from '../../server/identity/oidc/login.ts';
import type { Oidc } from '../../server/identity/oidc/oidc.ts';
import type { Sessions } from '../../server/identity/sessions.ts';

export interface AuthRoutesDeps {
  /** Null: nobody logs in here. */
  readonly oidc: Oidc | null;
  readonly sessions: Sessions;
  /** False: everybody who reaches the server is let in. */
  readonly hasAuth: boolean;
  /** With TLS a session is a cookie; without, any server of this machine would get the cookie too. */
  readonly scheme: 'http' | 'https';
  readonly trail: SmsTrail;
}

const AUTH_PATH = '/auth';
const MAX_BODY_BYTES = 4 * 1024;
const digestShape = /^[0-9a-f]{64}$/;
/** A path of ours: a second slash or a backslash would lead a browser to another host. */
const localPath = /^\/(?![/\\])[A-Za-z0-9._~/-]*$/;
const cookieAttributes = 'Path=/; Secure; HttpOnly; SameSite=Strict';

/** Logins of people by a browser. The page begins, the issuer sends the browser back, the page takes the session. */
export function authRoutes(deps: AuthRoutesDeps): Route[] {
  const route = (method: 'GET' | 'POST', name: string, run: (call: HttpCall) => Promise<HttpReply>): Route => ({
    method,
    path: `${AUTH_PATH}/${name}`,
    needs: 'anybody',
    run: (call) => run(call).catch(asLoginProblem),
  });
  return [
    route('GET', 'options', async () => jsonReply(200, options(deps))),
    route('GET', 'login', (call) => login(deps, call)),
    route('GET', 'callback', (call) => callback(deps, call)),
    route('POST', 'exchange', (call) => exchange(deps, call)),
    route('POST', 'logout', (call) => logout(deps, call)),
  ];
}

/** Who is not asked who they are need not sign in. */
const options = (deps: AuthRoutesDeps) => ({
  login: deps.oidc !== null,
  session: sessionKind(deps),
  auth: deps.hasAuth,
});

const sessionKind = ({ scheme }: AuthRoutesDeps) => (scheme === 'https' ? 'cookie' : 'token');

/** `?challenge=`: the sha256, in hex, of a secret that the page keeps; `?return_to=`: a path to come back to. */
async function login(deps: AuthRoutesDeps, { query, headers }: HttpCall): Promise<HttpReply> {
  const { logins, config } = known(deps);
  const challenge = query.get('challenge') ?? '';
  const returnTo = query.get('return_to') ?? '/';
  if (!digestShape.test(challenge)) throw invalid('challenge must be the sha256 of the page secret, in hex');
  if (!localPath.test(returnTo)) throw invalid('return_to must be a path on this server');
  const origin = config.publicUrl ?? `${deps.scheme}://${headers.host ?? ''}`;
  return redirect(await logins.begin({ challenge, returnTo, redirectUri: `${origin}${AUTH_PATH}/callback` }));
}

/** The code is in the fragment, which no server and no log gets to see. */
async function callback(deps: AuthRoutesDeps, { query }: HttpCall): Promise<HttpReply> {
  const { returnTo, code } = await known(deps).logins.finish(query);
  return redirect(`${returnTo}#login=${code}`);
}

async function exchange(deps: AuthRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const { code, secret } = await jsonBody(call, MAX_BODY_BYTES);
  if (typeof code !== 'string' || typeof secret !== 'string') throw invalid('code and secret must be strings');
  const identity = known(deps).logins.exchange(code, secret);
  const session = deps.sessions.begin(identity);
  const { remoteAddress } = call.response.socket ?? {};
  const caller = Caller.request({ socket: { remoteAddress } }, 'http', `POST ${AUTH_PATH}/exchange`, identity);
  deps.trail.write({ event: 'sms.login', ...caller, expires_at: new Date(identity.expiresAtMs ?? 0).toISOString() });
  const about = { name: identity.name, expires_at_ms: identity.expiresAtMs };
  if (deps.scheme === 'http') return jsonReply(200, { ...about, session: 'token', token: session });
  const maxAge = Math.max(0, Math.floor(((identity.expiresAtMs ?? 0) - Date.now()) / 1000));
  const cookie = `${SESSION_COOKIE}=${session}; Max-Age=${maxAge}; ${cookieAttributes}`;
  return jsonReply(200, { ...about, session: 'cookie' }, { 'set-cookie': cookie });
}

async function logout({ sessions, scheme }: AuthRoutesDeps, { headers }: HttpCall): Promise<HttpReply> {
  const bearer = /^bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1];
  // As with every change by a cookie: only a page of ours can send the header.
  const cookie = headers[SESSION_HEADER] === undefined ? null : sessionOfCookie(headers.cookie);
  const session = bearer ?? cookie;
  const ended = session !== null && sessions.end(session);
  const cleared = `${SESSION_COOKIE}=; Max-Age=0; ${cookieAttributes}`;
  return jsonReply(200, { ended }, scheme === 'https' ? { 'set-cookie': cleared } : {});
}

function known({ oidc }: AuthRoutesDeps): Oidc {
  if (oidc !== null) return oidc;
  throw new HttpProblem(404, 'no-login', 'login is not configured (no [oidc] in the config); use a token');
}

function redirect(location: string): HttpReply {
  return { status: 302, headers: { location, 'referrer-policy': 'no-referrer' }, body: '' };
}

function invalid(detail: string): HttpProblem {
  return new HttpProblem(400, 'invalid-login', detail);
}

function asLoginProblem(error: unknown): never {
  if (error instanceof LoginRefused) throw new HttpProblem(403, 'login-refused', error.message);
  if (error instanceof IssuerUnavailable) {
    throw new HttpProblem(503, 'issuer-unavailable', error.message, { headers: { 'retry-after': '10' } });
  }
  throw error;
}
