import { errorText } from '../base/error-text.ts';
import type { Identity } from '../protocol/people.ts';
import type { IdentityPort } from '../registry/identity-port.ts';
import { identityOfToken } from '../sms/people/oidc/identity-of-token.ts';
import { looksSigned, readSignedToken } from '../sms/people/oidc/signed-token.ts';

/** How long an answer of the registry holds: a token that was revoked is refused after this time at the latest. */
export const IDENTITY_CACHE_MS = 5_000;
/** Somebody may have made the token since. */
const UNKNOWN_CACHE_MS = 1_000;
const ANSWER_MS = 3_000;
const MAX_KNOWN = 10_000;
const MAX_ASKING = 64;

interface Answer {
  readonly identity: Identity | null;
  readonly until: number;
}

/**
 * Who somebody is: by the digest of their token, as the registry says, or by a signature of its issuer, with keys and rules
 * that the registry gives. No token leaves the node. Answers are kept for a few seconds; where the registry does not answer
 * for longer than that, nobody is let in by it.
 */
export class RegistryIdentities {
  readonly #port: IdentityPort;
  readonly #onFailure: (why: string) => void;
  /** Apart, so that nobody who tries out tokens drives out those who have one. The oldest answers come first. */
  readonly #known = new Map<string, Answer>();
  readonly #unknown = new Map<string, Answer>();
  readonly #asking = new Map<string, Promise<Identity | null | 'unavailable'>>();
  #failed = false;

  constructor(port: IdentityPort, onFailure: (why: string) => void) {
    this.#port = port;
    this.#onFailure = onFailure;
  }

  /** `sha256`: of the token, in hex. Never rejects. */
  async identify(sha256: string, token: string): Promise<Identity | null | 'unavailable'> {
    const kept = this.#known.get(sha256) ?? this.#unknown.get(sha256);
    if (kept !== undefined && kept.until > performance.now()) return current(kept.identity);
    const asking = this.#asking.get(sha256) ?? this.#ask(sha256, token);
    const answer = await asking;
    return answer === 'unavailable' ? answer : current(answer);
  }

  #ask(sha256: string, token: string): Promise<Identity | null | 'unavailable'> {
    if (this.#asking.size >= MAX_ASKING) return Promise.resolve('unavailable');
    const asking = this.#identify(sha256, token, AbortSignal.timeout(ANSWER_MS)).then(
      (identity) => {
        this.#keep(sha256, identity);
        this.#failed = false;
        return identity;
      },
      (error: unknown) => {
        if (!this.#failed) this.#onFailure(errorText(error));
        this.#failed = true;
        return 'unavailable' as const;
      },
    );
    this.#asking.set(sha256, asking);
    void asking.finally(() => this.#asking.delete(sha256));
    return asking;
  }

  async #identify(sha256: string, token: string, signal: AbortSignal): Promise<Identity | null> {
    if (!looksSigned(token)) return this.#port.identify(sha256, signal);
    const signed = readSignedToken(token);
    if (signed === null) return null;
    const { alg, kid } = signed;
    const issuer = await this.#port.issuer({ alg, kid }, signal);
    return issuer === null ? null : identityOfToken(signed, issuer);
  }

  #keep(sha256: string, identity: Identity | null): void {
    this.#known.delete(sha256);
    this.#unknown.delete(sha256);
    const answers = identity === null ? this.#unknown : this.#known;
    const now = performance.now();
    for (const [oldest, { until }] of answers) {
      if (until > now && answers.size < MAX_KNOWN) break;
      answers.delete(oldest);
    }
    answers.set(sha256, { identity, until: now + (identity === null ? UNKNOWN_CACHE_MS : IDENTITY_CACHE_MS) });
  }
}

function current(identity: Identity | null): Identity | null {
  return identity?.expiresAtMs != null && identity.expiresAtMs <= Date.now() ? null : identity;
}
