/**
 * Named tokens: an in-memory index of the token store, updated by a watch, so that a change by any registry process takes
 * effect here. If the watch fails, all tokens are listed again. A removed or changed token ends its identities at once.
 * Also finds the person behind a token, for approvals: users must not vote twice through several tokens.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Identity } from '../records/permissions.ts';
import { isTokenName, type TokenRecord } from '../records/token.ts';
import { type RegistryStore, StoreError } from '../store/store.ts';
import type { AuthFailure, DigestSource, Validity } from './access.ts';
import { digestOf, TOKEN_PREFIX, tokenForm } from './token-text.ts';

/** Delay before the tokens are listed again after a failed watch. */
const RETRY_MS = 500;
/** How long a change may take to arrive through the watch. */
const CATCH_UP_MS = 5_000;

export class NamedTokens implements DigestSource {
  readonly #store: RegistryStore<TokenRecord>;
  readonly #validity: Validity;
  readonly #onUse: (name: string) => void;
  readonly #ended = new AbortController();
  readonly #byDigest = new Map<string, Identity>();
  readonly #digests = new Map<string, readonly string[]>();
  readonly #records = new Map<string, TokenRecord>();
  readonly #revisionWaiters = new Set<() => void>();
  #revision = -1;
  #following: Promise<void> = Promise.resolve();

  constructor(store: RegistryStore<TokenRecord>, validity: Validity, onUse: (name: string) => void) {
    this.#store = store;
    this.#validity = validity;
    this.#onUse = onUse;
  }

  /** Resolves when all tokens are loaded. */
  async open(): Promise<void> {
    await this.#list();
    this.#following = this.#follow();
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await this.#following;
  }

  /** A lookup by digest need not be constant-time: without the token a caller cannot choose its digest. */
  identify(token: string): Identity | AuthFailure | null {
    const isIssued = token.startsWith(TOKEN_PREFIX) && tokenForm(token) !== 'malformed';
    return isIssued ? this.identifyDigest(digestOf(token)) : null;
  }

  identifyDigest(sha256: Buffer): Identity | AuthFailure | null {
    const identity = this.#byDigest.get(sha256.toString('hex'));
    if (identity === undefined) return null;
    if (identity.expiresAtMs !== null && identity.expiresAtMs <= Date.now()) return 'expired';
    this.#onUse(identity.name);
    return identity;
  }

  has(name: string): boolean {
    return this.#digests.has(name);
  }

  /** Whether the name is the name of a token that does not exist. */
  isRevoked(name: string): boolean {
    return isTokenName(name) && !this.has(name);
  }

  /** See {@link personOf}. */
  personOf(name: string): string {
    return personOf(name, (other) => this.#records.get(other));
  }

  personOfNew(name: string, creator: string): string {
    return personOfNew(name, creator, (other) => this.#records.get(other));
  }

  /** The last rotation of a token by another user. */
  rotatedBy(name: string): TokenRecord['rotated_by'] {
    return this.#records.get(name)?.rotated_by ?? null;
  }

  /** Resolves when the revision is loaded, at the latest after {@link CATCH_UP_MS}. */
  async upTo(revision: number): Promise<void> {
    const deadline = AbortSignal.any([AbortSignal.timeout(CATCH_UP_MS), this.#ended.signal]);
    while (this.#revision < revision && !deadline.aborted) {
      await new Promise<void>((resolve) => {
        const settle = () => {
          this.#revisionWaiters.delete(settle);
          deadline.removeEventListener('abort', settle);
          resolve();
        };
        this.#revisionWaiters.add(settle);
        deadline.addEventListener('abort', settle);
      });
    }
  }

  async #follow(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      try {
        for await (const { revision, upserts, deletes } of this.#store.watch(this.#revision, signal)) {
          for (const name of deletes) this.#set(name, null);
          for (const record of upserts) this.#set(record.name, record);
          this.#reached(revision);
        }
      } catch (error) {
        if (error instanceof StoreError && error.code === 'closed') return;
        await delay(RETRY_MS, undefined, { signal }).catch(() => {});
        await this.#list().catch(() => {});
      }
    }
  }

  async #list(): Promise<void> {
    const { revision, records } = await this.#store.list();
    const names = new Set(records.map(({ name }) => name));
    for (const name of [...this.#digests.keys()]) if (!names.has(name)) this.#set(name, null);
    for (const record of records) this.#set(record.name, record);
    this.#reached(revision);
  }

  #reached(revision: number): void {
    this.#revision = revision;
    for (const settle of [...this.#revisionWaiters]) settle();
  }

  #set(name: string, record: TokenRecord | null): void {
    const before = this.#digests.get(name) ?? [];
    const now = new Map(record === null ? [] : identitiesOf(record));
    for (const digest of before) {
      const [was, is] = [this.#byDigest.get(digest), now.get(digest)];
      if (was === undefined) continue;
      if (is !== undefined && same(was, is)) now.set(digest, was);
      else {
        this.#byDigest.delete(digest);
        this.#validity.end(was);
      }
    }
    for (const [digest, identity] of now) this.#byDigest.set(digest, identity);
    if (record === null) this.#digests.delete(name);
    else this.#digests.set(name, [...now.keys()]);
    if (record === null) this.#records.delete(name);
    else this.#records.set(name, record);
  }
}

function identitiesOf(record: TokenRecord): [string, Identity][] {
  return record.secrets.map(({ digest, expires_at_ms }) => [
    digest,
    {
      name: record.name,
      roles: record.roles,
      namespace: record.namespace,
      mayReadJournals: record.read_journals,
      expiresAtMs: earlier(record.expires_at_ms, expires_at_ms),
    },
  ]);
}

function earlier(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b);
}

function same(a: Identity, b: Identity): boolean {
  return (
    a.roles.join() === b.roles.join() &&
    a.namespace === b.namespace &&
    a.mayReadJournals === b.mayReadJournals &&
    a.expiresAtMs === b.expiresAtMs
  );
}

type Creation = Pick<TokenRecord, 'created_by' | 'person'>;

/** Creators that stand for the installation and not for a user: the bootstrap token, and any caller without authentication. */
export const isInstallation = (creator: string) => creator === 'bootstrap-admin' || creator === 'anybody';

/**
 * The person behind a name. A token that a user made belongs to that user, through any number of tokens in between. A
 * token of `bootstrap-admin` belongs to the user it is named after; an OIDC user is its own person.
 */
export function personOf(name: string, find: (name: string) => Creation | undefined): string {
  const seen = new Set<string>();
  for (let current = name; ; ) {
    const token = find(current);
    if (token === undefined || seen.has(current)) return current;
    if (token.person != null) return token.person;
    if (isInstallation(token.created_by)) return current;
    seen.add(current);
    current = token.created_by;
  }
}

/** The person that a new token belongs to; stored with it, because its creator's token may be revoked. */
export function personOfNew(name: string, creator: string, find: (name: string) => Creation | undefined): string {
  return personOf(name, (wanted) => (wanted === name ? { created_by: creator } : find(wanted)));
}

/** A token for display: without the digests of its secrets. */
export function tokenJson({ secrets, ...token }: TokenRecord) {
  return { ...token, secrets: secrets.map(({ digest: _, ...secret }) => secret) };
}
