import type { RecordIssue } from './record.ts';
import { pathText, type RecordShape } from './record-schema.ts';
import { urlHasUser } from './record-values.ts';

type HttpShape = NonNullable<RecordShape['http']>;
type OAuthShape = NonNullable<HttpShape['oauth']>;

/** Rules between the fields of an `http` block that has an `oauth` one. */
export function oauthContradictions(http: HttpShape): RecordIssue[] {
  const { oauth } = http;
  if (oauth === null) return [];
  const issues: RecordIssue[] = [];
  const complain = (field: string, message: string) =>
    issues.push({ path: pathText(['http', 'oauth', ...(field === '' ? [] : [field])]), message });
  const rival = rivalOf(http);
  if (rival !== null) complain('', `cannot be combined with ${rival}: both set the Authorization header`);
  for (const [field, message] of credentialProblems(oauth)) complain(field, message);
  return issues;
}

function rivalOf({ url, headers, auth_ref }: HttpShape): string | null {
  if (auth_ref !== null) return 'auth_ref';
  if (Object.keys(headers).some((name) => name.toLowerCase() === 'authorization')) return 'an Authorization header';
  return urlHasUser(url) ? 'a user in the url' : null;
}

function credentialProblems(oauth: OAuthShape): (readonly [field: string, message: string])[] {
  const { grant, client_id, client_secret, private_key, token_endpoint_auth_method: method } = oauth;
  const problems: (readonly [string, string])[] = [];
  if (client_secret !== null && private_key !== null) {
    problems.push(['private_key', 'cannot be combined with client_secret: use one client authentication method']);
  }
  if (client_id === null && (grant === 'client_credentials' || client_secret !== null || private_key !== null)) {
    problems.push(['client_id', 'is required with client_secret or private_key']);
  }
  if (grant === 'client_credentials' && client_secret === null && private_key === null) {
    problems.push(['client_secret', 'or private_key is required for grant "client_credentials"']);
  }
  const needed = method === null ? null : credentialOf[method];
  if (needed === 'none' && (client_secret !== null || private_key !== null)) {
    problems.push(['token_endpoint_auth_method', 'is "none", but client_secret or private_key is set']);
  } else if (needed !== null && needed !== 'none' && oauth[needed] === null) {
    problems.push(['token_endpoint_auth_method', `needs ${needed}`]);
  }
  return problems;
}

const credentialOf = {
  client_secret_basic: 'client_secret',
  client_secret_post: 'client_secret',
  private_key_jwt: 'private_key',
  none: 'none',
} as const;
