import { setTimeout as delay } from 'node:timers/promises';
import { isTokenName } from '../records/token-kind.ts';
import type { TokenRecord } from '../records/token-record.ts';
import { type RegistryStore, StoreError } from '../store/store.ts';
import type { DigestSource, Stranger } from './access.ts';
import type { Identity } from './identity.ts';
import { personOf, personOfNew } from './person.ts';
import { digestOf, TOKEN_PREFIX, tokenForm } from './token-text.ts';
import type { Validity } from './validity.ts';

/** After a watch that broke, before the tokens are listed again. */
const RETRY_MS = 500;
/** For a change of ours to come back by the watch. */
const CATCH_UP_MS = 5_000;

/** The tokens of the store, as it has them now: it is watched, whoever changes it. */
export class NamedTokens implements DigestSource {
  readonly #store: RegistryStore<TokenRecord>;
  readonly #validity: Validity;
  readonly #onUse: (name: string) => void;
  readonly #ended = new AbortController();
  readonly #byDigest = new Map<string, Identity>();
  readonly #digests = new Map<string, readonly string[]>();
  readonly #records = new Map<string, TokenRecord>();
  readonly #waiting = new Set<() => void>();
  #revision = -1;
  #following: Promise<void> = Promise.resolve();

  constructor(store: RegistryStore<TokenRecord>, validity: Validity, onUse: (name: string) => void) {
    this.#store = store;
    this.#validity = validity;
    this.#onUse = onUse;
  }

  /** Knows all tokens when it resolves. */
  async open(): Promise<void> {
    await this.#list();
    this.#following = this.#follow();
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await this.#following;
  }

  /** The digest is looked up as it is: who does not have the token cannot choose it, so the time tells nothing of use. */
  identify(token: string): Identity | Stranger | null {
    const isIssued = token.startsWith(TOKEN_PREFIX) && tokenForm(token) !== 'malformed';
    return isIssued ? this.identifyDigest(digestOf(token)) : null;
  }

  identifyDigest(sha256: Buffer): Identity | Stranger | null {
    const identity = this.#byDigest.get(sha256.toString('hex'));
    if (identity === undefined) return null;
    if (identity.expiresAtMs !== null && identity.expiresAtMs <= Date.now()) return 'expired';
    this.#onUse(identity.name);
    return identity;
  }

  /** Whether there is a token of this name. */
  has(name: string): boolean {
    return this.#digests.has(name);
  }

  /** Whether the name can only be that of a token, and there is none. */
  isRevoked(name: string): boolean {
    return isTokenName(name) && !this.has(name);
  }

  /** The person behind a name: see {@link personOf}. */
  personOf(name: string): string {
    return personOf(name, (other) => this.#records.get(other));
  }

  personOfNew(name: string, creator: string): string {
    return personOfNew(name, creator, (other) => this.#records.get(other));
  }

  /** The last rotation of a token, where another user made it. */
  rotatedBy(name: string): TokenRecord['rotated_by'] {
    return this.#records.get(name)?.rotated_by ?? null;
  }

  /** Resolves when a change of this revision is in force. */
  async upTo(revision: number): Promise<void> {
    const deadline = AbortSignal.any([AbortSignal.timeout(CATCH_UP_MS), this.#ended.signal]);
    while (this.#revision < revision && !deadline.aborted) {
      await new Promise<void>((resolve) => {
        const settle = () => {
          this.#waiting.delete(settle);
          deadline.removeEventListener('abort', settle);
          resolve();
        };
        this.#waiting.add(settle);
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
    for (const settle of [...this.#waiting]) settle();
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
