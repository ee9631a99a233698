import type { ApprovalQueue } from '../../agent/approvals/service.ts';
import type { JsonObject } from '../../base/json.ts';
import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { Route } from '../../server/http/route.ts';
import { type HttpCall, identityOf, jsonBody } from '../../server/http/route.ts';
import { issueRefusal, mayName } from '../../server/identity/identity.ts';
import { isInstallation, type NamedTokens, tokenJson } from '../../server/identity/named-tokens.ts';
import { digestOf, newTokenText } from '../../server/identity/token-text.ts';
import type { TokenUses } from '../../server/identity/token-uses.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import { ALL_NAMESPACES, type Identity } from '../../server/records/permissions.ts';
import { type TokenRecord, type TokenSecret, tokenKind, tokenLimits } from '../../server/records/token.ts';
import { accept, InvalidRecord, writeRecord } from '../../server/store/record-write.ts';
import { type RegistryStore, StoreError } from '../../server/store/store.ts';
import type { AuditedStore } from '../audit/audited-store.ts';

export interface TokensRoutesDeps {
  readonly tokens: AuditedStore<TokenRecord>;
  /** Those that are in force. */
  readonly named: NamedTokens;
  readonly uses: TokenUses;
  readonly approvals: Pick<ApprovalQueue, 'reservingRule'>;
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

async function list(deps: TokensRoutesDeps, call: HttpCall): Promise<HttpReply> {
  const { tokens, uses } = deps;
  const identity = identityOf(call);
  const { revision, epoch, records } = await tokens.list();
  const theirs = records.filter(({ namespace }) => mayName(identity, namespace));
  return jsonReply(200, {
    revision,
    epoch,
    tokens: theirs.map((token) => ({ ...shown(token, uses), violates: violatedRule(deps, token, records) })),
  });
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
        created_in: giver.namespace,
        person: deps.named.personOfNew(String(body.name), giver.name),
        secrets: [secretOf(text, now)],
      },
      { strict: true },
    ),
  );
  if (record.expires_at_ms !== null && record.expires_at_ms <= now) {
    throw new InvalidRecord([{ path: 'expires_at_ms', message: 'is not in the future' }]);
  }
  allowGift(deps, giver, record);
  if ((await deps.tokens.list()).records.length >= MAX_TOKENS) {
    throw new HttpProblem(409, 'too-many-tokens', `there are already ${MAX_TOKENS} tokens, the maximum; revoke some`);
  }
  const { record: stored, revision } = await deps.tokens.as(call.caller).upsert(record, { ifModRevision: 0 });
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
  const { record, revision } = await writeRecord(deps.tokens.as(call.caller), {
    id: call.id,
    input: (stored) => {
      const token = visibleTo(giver, stored);
      allowGift(deps, giver, token);
      const isOwn = deps.named.personOf(giver.name) === deps.named.personOf(token.name);
      const rotated_by = isOwn ? (token.rotated_by ?? null) : { name: giver.name, at_ms: now };
      return { ...token, rotated_by, secrets: [secretOf(text, now), ...outgoing(token.secrets, now, overlapMs)] };
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
  await storePersons(tokens.as(call.caller), named, call.id);
  const revision = await tokens.as(call.caller).remove(call.id);
  await named.upTo(revision);
  log('info', 'token_revoked', { token: call.id });
  return jsonReply(200, { revision });
}

/** Tokens of earlier versions know their person only through their creators, one of which is about to be removed. */
async function storePersons(tokens: RegistryStore<TokenRecord>, named: NamedTokens, creator: string): Promise<void> {
  const { records } = await tokens.list();
  for (const token of records) {
    if (token.created_by !== creator || token.person != null) continue;
    await tokens.upsert({ ...token, person: named.personOf(token.name) }, { ifModRevision: token.mod_revision });
  }
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

/** @throws HttpProblem 403 */
function allowGift({ approvals }: TokensRoutesDeps, giver: Identity, token: TokenRecord): void {
  const { name, roles, namespace, read_journals } = token;
  const refused = issueRefusal(giver, { roles, namespace, mayReadJournals: read_journals });
  if (refused !== null) throw new HttpProblem(403, 'not-permitted', refused);
  const rule = giver.namespace === ALL_NAMESPACES ? null : approvals.reservingRule(giver.namespace, name);
  if (rule === null) return;
  const why = `the approver rule ${JSON.stringify(rule)} names "${name}": only an admin of all namespaces can create or rotate this token`;
  throw new HttpProblem(403, 'not-permitted', why);
}

/**
 * The rule that reserves the name of a token which an admin of one namespace made; null: none does. A creator that is not
 * known any more counts as one.
 */
function violatedRule(
  { approvals }: TokensRoutesDeps,
  { name, namespace, created_by, created_in }: TokenRecord,
  all: readonly TokenRecord[],
): string | null {
  if (namespace === ALL_NAMESPACES || isInstallation(created_by)) return null;
  const creator = created_in ?? all.find((other) => other.name === created_by)?.namespace;
  return creator === ALL_NAMESPACES ? null : approvals.reservingRule(namespace, name);
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
