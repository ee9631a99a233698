import type { JsonObject } from '../../base/json.ts';
import { ALL_NAMESPACES } from '../../protocol/people.ts';
import { tokenKind } from '../../protocol/token-kind.ts';
import { type TokenRecord, type TokenSecret, tokenLimits } from '../../protocol/token-record.ts';
import { giftRefusal, type Identity, mayName } from '../people/identity.ts';
import type { NamedTokens } from '../people/named-tokens.ts';
import { tokenJson } from '../people/token-json.ts';
import { digestOf, newTokenText } from '../people/token-text.ts';
import type { TokenUses } from '../people/token-uses.ts';
import { accept, InvalidRecord, writeRecord } from '../record-write.ts';
import type { ServiceLog } from '../service-log.ts';
import { type RegistryStore, StoreError } from '../store/store.ts';
import { type HttpCall, identityOf, jsonBody } from './http-call.ts';
import type { Route } from './http-listener.ts';
import { type HttpReply, jsonReply } from './http-reply.ts';
import { HttpProblem } from './problem.ts';

export interface TokensRoutesDeps {
  readonly tokens: RegistryStore<TokenRecord>;
  /** Those that are in force. */
  readonly named: NamedTokens;
  readonly uses: TokenUses;
  readonly log: ServiceLog;
}

export const TOKENS_PATH = '/admin/api/tokens';
const MAX_BODY_BYTES = 16 * 1024;
/** Every one is kept in memory. */
const MAX_TOKENS = 50_000;
const DEFAULT_OVERLAP_MS = 24 * 3_600_000;
const MAX_OVERLAP_MS = 90 * 24 * 3_600_000;
const wishes: ReadonlySet<string> = new Set([
  'name',
  'description',
  'roles',
  'namespace',
  'read_journals',
  'expires_at_ms',
]);

/** Tokens with a name. The text of one is in the answer that makes it, and nowhere else. */
export function tokensRoutes(deps: TokensRoutesDeps): Route[] {
  const route = (method: Route['method'], path: string, run: (call: HttpCall) => Promise<HttpReply>): Route => ({
    method,
    path,
    needs: 'administer',
    namespaced: true,
    run: (call) => run(call).catch(asTokenProblem),
  });
  return [
    route('GET', TOKENS_PATH, (call) => list(deps, call)),
    route('POST', TOKENS_PATH, (call) => create(deps, call)),
    route('POST', `${TOKENS_PATH}/{id}/rotate`, (call) => rotate(deps, call)),
    route('DELETE', `${TOKENS_PATH}/{id}`, (call) => revoke(deps, call)),
  ];
}

async function list({ tokens, uses }: TokensRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const identity = identityOf(call);
  const { revision, epoch, records } = await tokens.list();
  const theirs = records.filter(({ namespace }) => mayName(identity, namespace));
  return jsonReply(200, { revision, epoch, tokens: theirs.map((token) => shown(token, uses)) });
}

async function create(deps: TokensRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const giver = identityOf(call);
  const body = await jsonBody(call, MAX_BODY_BYTES);
  refuseUnknown(body, wishes);
  const text = newTokenText();
  const now = Date.now();
  const { record } = accept(
    tokenKind.parse(
      {
        // Who says nothing hands out no more places than they have themselves.
        namespace: giver.namespace,
        ...body,
        created_at_ms: now,
        created_by: giver.name,
        secrets: [secretOf(text, now)],
      },
      { strict: true },
    ),
  );
  if (record.expires_at_ms !== null && record.expires_at_ms <= now) {
    throw new InvalidRecord([{ path: 'expires_at_ms', message: 'is not in the future' }]);
  }
  allowGift(giver, record);
  if ((await deps.tokens.list()).records.length >= MAX_TOKENS) {
    throw new HttpProblem(409, 'too-many-tokens', `there are already ${MAX_TOKENS} tokens, the maximum; revoke some`);
  }
  const { record: stored, revision } = await deps.tokens.upsert(record, { ifModRevision: 0 });
  return handedOut(deps, 201, stored, text, revision);
}

async function rotate(deps: TokensRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const giver = identityOf(call);
  const body = await jsonBody(call, MAX_BODY_BYTES);
  refuseUnknown(body, new Set(['overlap_ms']));
  const overlapMs = body.overlap_ms ?? DEFAULT_OVERLAP_MS;
  if (typeof overlapMs !== 'number' || !Number.isInteger(overlapMs) || overlapMs < 0 || overlapMs > MAX_OVERLAP_MS) {
    const message = `must be a whole number from 0 to ${MAX_OVERLAP_MS}`;
    throw new InvalidRecord([{ path: 'overlap_ms', message }]);
  }
  const text = newTokenText();
  const now = Date.now();
  const { record, revision } = await writeRecord(deps.tokens, {
    id: call.id,
    input: (stored) => {
      const token = visibleTo(giver, stored);
      allowGift(giver, token);
      return { ...token, secrets: [secretOf(text, now), ...outgoing(token.secrets, now, overlapMs)] };
    },
    strict: true,
  });
  return handedOut(deps, 200, record, text, revision);
}

async function revoke({ tokens, named, log }: TokensRoutesDeps, call: HttpCall): Promise<HttpReply> {
  // One that cannot be read is nobody's, and gone for good only when it is removed.
  const stored = await tokens.get(call.id);
  const identity = identityOf(call);
  if (stored !== null || identity.namespace !== ALL_NAMESPACES) visibleTo(identity, stored);
  if (!tokenKind.isId(call.id)) throw missing();
  const revision = await tokens.remove(call.id);
  await named.upTo(revision);
  log('info', 'token_revoked', { token: call.id });
  return jsonReply(200, { revision });
}

async function handedOut(
  { named, uses, log }: TokensRoutesDeps,
  status: number,
  record: TokenRecord,
  text: string,
  revision: number,
): Promise<HttpReply> {
  await named.upTo(revision);
  log('info', status === 201 ? 'token_created' : 'token_rotated', { token: record.name });
  return jsonReply(status, { ...shown(record, uses), token: text });
}

/** A use from before it was made was of another one of the same name. */
function shown(token: TokenRecord, uses: TokenUses) {
  const used = uses.lastUse(token.name);
  return { ...tokenJson(token), last_used_at_ms: used !== null && used >= token.created_at_ms ? used : null };
}

function secretOf(text: string, now: number): TokenSecret {
  return { digest: digestOf(text).toString('hex'), created_at_ms: now, expires_at_ms: null };
}

/** The texts that stay valid for a while beside the new one. */
function outgoing(secrets: readonly TokenSecret[], now: number, overlapMs: number): TokenSecret[] {
  const until = now + overlapMs;
  const left = secrets
    .map((secret) => ({ ...secret, expires_at_ms: Math.min(secret.expires_at_ms ?? until, until) }))
    .filter(({ expires_at_ms }) => expires_at_ms > now);
  if (left.length < tokenLimits.secrets) return left;
  const detail = `${left.length} secrets of this token are valid, the maximum; wait until one expires, or set overlap_ms to 0`;
  throw new HttpProblem(409, 'too-many-secrets', detail);
}

function allowGift(giver: Identity, { roles, namespace, read_journals }: TokenRecord): void {
  const refused = giftRefusal(giver, { roles, namespace, mayReadJournals: read_journals });
  if (refused !== null) throw new HttpProblem(403, 'not-permitted', refused);
}

/** A token of another namespace is not there for them. */
function visibleTo(identity: Identity, stored: TokenRecord | null): TokenRecord {
  if (stored === null || !mayName(identity, stored.namespace)) throw missing();
  return stored;
}

function refuseUnknown(body: JsonObject, known: ReadonlySet<string>): void {
  const strange = Object.keys(body).filter((field) => !known.has(field));
  if (strange.length > 0) throw new InvalidRecord(strange.map((path) => ({ path, message: 'unknown field' })));
}

/** What a store says of servers has names of its own for tokens. */
function asTokenProblem(error: unknown): never {
  if (error instanceof StoreError && error.code === 'not_found') throw missing();
  if (error instanceof StoreError && error.code === 'already_exists') {
    throw new HttpProblem(409, 'token-exists', error.message);
  }
  throw error;
}

function missing(): HttpProblem {
  return new HttpProblem(404, 'no-such-token', 'there is no such token');
}
