import { randomBytes } from 'node:crypto';
import { errorText } from '../../base/errors.ts';
import { canonicalJson, type JsonObject } from '../../base/json.ts';
import { Listeners } from '../../base/listeners.ts';
import { type Backoff, backoffMs } from '../../base/timing.ts';
import {
  ApprovalRejected,
  type AskedApproval,
  type DecidedApproval,
  type FiledApproval,
  type NodeApprovals,
} from '../../registry-client/ports.ts';
import {
  type ApprovalDecision,
  approvalDecisions,
  approvalLimits,
  type BoundCall,
  saltedHash,
} from '../../server/records/approval.ts';
import type { ApprovalAnswer, ApprovalRequest } from './request.ts';

/*
 * Approvals that the users of a registry decide, as a node or `spear-run --approve sms` requests them.
 *
 * `ApprovalConnection` is shared by all runs of a process: one stream of decisions, however many requests are pending.
 * `ApprovalClient` belongs to one run: it files a request, waits for its decision and redeems the grant.
 *
 * Invariants
 * - A request is stored in the registry before it is waited for, so a resumed run finds it again by what it is bound to.
 * - A grant is valid only after it was redeemed in the registry, and can be redeemed once.
 * - The registry keeps the time of a stored request. The client denies it only if the registry stays silent past it.
 *
 * A request that ended without an answer (withdrawn, expired) is filed again, at most MAX_REQUESTS times.
 */

const backoff: Backoff = { firstMs: 100, maxMs: 5_000 };
/** For one attempt to reach the registry. */
const ATTEMPT_MS = 10_000;
/** How long a call that has its slot waits for its grant to be redeemed. */
const REDEEM_MS = 30_000;
/** If the registry is reachable, it reports first that the time is over. */
const GRACE_MS = 5_000;
const MAX_TIMER_MS = 2 ** 31 - 1;
const MAX_REQUESTS = 4;
const WITHDRAW_MS = 2_000;
/** Ids in one request to the registry, which accepts at most 1,000. */
const MAX_IDS = 500;

/** A decision, or the state of the stream of decisions. */
export type DecisionEvent = DecidedApproval | 'connected' | 'lost';

interface FollowedRequest {
  readonly asked: AskedApproval;
  readonly onDecided: (approval: FiledApproval) => void;
}

/** Connection of a process to the approval service of a registry: one stream of decisions for all runs. */
export class ApprovalConnection {
  readonly port: NodeApprovals;
  readonly #log: (text: string) => void;
  readonly #events = new Listeners<DecisionEvent>();
  readonly #closed = new AbortController();
  /** Pending requests of runs in this process, by id. */
  readonly #followed = new Map<string, Set<FollowedRequest>>();
  #isUp = false;
  #streaming: Promise<void> | null = null;

  constructor(port: NodeApprovals, log: (text: string) => void) {
    this.port = port;
    this.#log = log;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** Receives every decision, and each change of the stream's state. The returned function ends that. */
  listen(listener: (event: DecisionEvent) => void): () => void {
    this.#streaming ??= this.#stream();
    return this.#events.add(listener);
  }

  /** Calls back with the outcome of a filed request, also if it was decided while the stream was lost. */
  follow(id: string, asked: AskedApproval, onDecided: (approval: FiledApproval) => void): () => void {
    const followed = { asked, onDecided };
    const others = this.#followed.get(id) ?? new Set();
    this.#followed.set(id, others.add(followed));
    this.#streaming ??= this.#stream();
    if (this.#isUp) void this.#catchUp([id]);
    return () => {
      others.delete(followed);
      if (others.size === 0 && this.#followed.get(id) === others) this.#followed.delete(id);
    };
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#streaming;
  }

  #deliver(id: string, approval: FiledApproval): void {
    const followed = this.#followed.get(id) ?? [];
    this.#followed.delete(id);
    for (const { onDecided } of followed) onDecided(approval);
  }

  async #stream(): Promise<void> {
    const { signal } = this.#closed;
    for (let failures = 0; !signal.aborted; ) {
      try {
        for await (const decided of this.port.decided(signal)) {
          if (failures > 0) this.#log('connection to the registry for approvals restored');
          failures = 0;
          if (!this.#isUp) {
            this.#isUp = true;
            this.#events.notify('connected');
            void this.#catchUp([...this.#followed.keys()]);
          }
          if (decided === null) continue;
          this.#deliver(decided.id, decided);
          this.#events.notify(decided);
        }
      } catch (error) {
        failures += 1;
        if (failures === 1 && !signal.aborted) {
          this.#log(`connection to the registry for approvals lost: ${errorText(error)}`);
        }
      }
      this.#isUp = false;
      this.#events.notify('lost');
      await pause(backoffMs(backoff, Math.max(1, failures), Math), signal);
    }
  }

  /** Delivers what was decided before the stream began. Ends when the stream is lost: the next one catches up again. */
  async #catchUp(ids: readonly string[]): Promise<void> {
    const { signal } = this.#closed;
    for (let failures = 0; this.#isUp && !signal.aborted; ) {
      try {
        for (let at = 0; at < ids.length; at += MAX_IDS) await this.#deliverDecided(ids.slice(at, at + MAX_IDS));
        return;
      } catch {
        failures += 1;
        await pause(backoffMs(backoff, failures, Math), signal);
      }
    }
  }

  async #deliverDecided(ids: readonly string[]): Promise<void> {
    const attempt = AbortSignal.any([this.#closed.signal, AbortSignal.timeout(ATTEMPT_MS)]);
    const pending = ids.filter((id) => this.#followed.has(id));
    if (pending.length === 0) return;
    const waiting = await this.port.waiting(pending, attempt);
    for (const id of pending) {
      const [followed] = this.#followed.get(id) ?? [];
      if (waiting.has(id) || followed === undefined) continue;
      const filed = await this.port.open(followed.asked, attempt);
      // Another request took its place: this one ended without an answer.
      if (filed.id !== id) this.#deliver(id, { ...filed, id, status: 'withdrawn' });
      else if (filed.status !== 'waiting') this.#deliver(id, filed);
    }
  }
}

/** A grant that the registry holds. It is valid after it was redeemed there, and can be redeemed once. */
export interface GrantHandle {
  /** What it was requested for: see BoundCall. */
  readonly purpose: string;
  /** How long the grant may still be redeemed, and how long ago it was given. */
  readonly leftMs: number;
  readonly ageMs: number;
  readonly isRedeemed: boolean;
  /** Null: redeemed. Otherwise why not. */
  redeem(call: BoundCall, args: JsonObject): Promise<RedeemRefusal | null>;
  /** Gives up a grant that will not be redeemed. */
  drop(why: string): void;
}

export interface RedeemRefusal {
  /** Whether a new request may succeed: the call is not the approved one any more, or the grant is over. */
  readonly outdated: boolean;
  readonly message: string;
}

/** Outcome of a request that the registry decided. */
export class RegistryAnswer implements ApprovalAnswer {
  readonly decision: ApprovalDecision;
  readonly reason: string;
  /** Names of the approvers; null: no approver decided. */
  readonly decidedBy: string | null;
  /** Null: the request was denied. */
  readonly grant: GrantHandle | null;

  constructor(decision: ApprovalDecision, reason: string, decidedBy: string | null, grant: GrantHandle | null) {
    this.decision = decision;
    this.reason = reason;
    this.decidedBy = decidedBy;
    this.grant = grant;
  }
}

/** A request with what its grant is bound to. */
export interface BoundRequest extends Omit<ApprovalRequest, 'deadlineMs'> {
  readonly bound: BoundCall;
  /** Whether the run may be resumed and find its request: then the request stays in the registry. Evaluated at the end. */
  readonly isResumable: () => boolean;
}

/** A pending request, for the component that decides when a run is parked. */
export interface ApprovalWait {
  readonly id: string;
  readonly request: BoundRequest;
  /** Drops the wait without an outcome: the run is parked, and finds its request when it resumes. */
  abandon(): void;
}

/** Called when a wait begins; the returned function is called when it is over. */
export type WatchApproval = (wait: ApprovalWait) => () => void;

export interface ApprovalClientOptions {
  readonly connection: ApprovalConnection;
  /** Namespace of the run. @default the node's own */
  readonly namespace?: string | null;
  /** User who submitted the run. @default unknown */
  readonly submittedBy?: string | null;
  /** Receives each pending request. @default none */
  readonly waits?: WatchApproval | undefined;
  /** How long the registry may be unreachable before a request is stored, which from then on keeps the time. */
  readonly fileWithinMs: number;
  /** Notices for the user of the process. @default none */
  readonly say?: (text: string) => void;
}

/** Approval client of one run. */
export class ApprovalClient {
  readonly #options: ApprovalClientOptions;
  readonly #closed = new AbortController();
  /** Requests and withdrawals in flight; `close` waits for them. */
  readonly #inFlight = new Set<Promise<void>>();

  constructor(options: ApprovalClientOptions) {
    this.#options = options;
  }

  /** Never rejects. When the request's signal aborts, the outcome is a denial. */
  ask(request: BoundRequest): Promise<RegistryAnswer> {
    const answer = this.#ask(request);
    const over: Promise<void> = answer.then(() => void this.#inFlight.delete(over));
    this.#inFlight.add(over);
    return answer;
  }

  async #ask(request: BoundRequest): Promise<RegistryAnswer> {
    try {
      for (let requests = 1; ; requests++) {
        const asked = this.#asked(request);
        const filed = await this.#file(asked, request.signal);
        const decided = filed.status === 'waiting' ? await this.#decision(filed, asked, request) : filed;
        const answer = this.#answer(decided, request.bound);
        if (answer !== null) return answer;
        if (requests === MAX_REQUESTS) return denied(`the approval request is ${decided.status}`);
      }
    } catch (error) {
      return denied((error as Error).message);
    }
  }

  /** Ends all waits and waits briefly for withdrawals. */
  async close(): Promise<void> {
    this.#closed.abort(new Error('the run ended'));
    const settled = async () => {
      while (this.#inFlight.size > 0) await Promise.all(this.#inFlight);
    };
    const patience = new AbortController();
    await Promise.race([settled(), pause(WITHDRAW_MS, patience.signal)]);
    patience.abort();
  }

  #asked({ bound, callId, arguments: args, definition, cause }: BoundRequest): AskedApproval {
    return {
      namespace: this.#options.namespace ?? null,
      call: this.#submitted(bound),
      callId,
      argumentsJson: canonicalJson(args),
      definitionJson: shownDefinition(definition as unknown as JsonObject),
      causeCode: cause.code,
      causeText: cause.text,
      // A run whose waits are watched may be parked.
      isKept: this.#options.waits !== undefined,
    };
  }

  #file(asked: AskedApproval, signal: AbortSignal): Promise<FiledApproval> {
    const { connection, fileWithinMs } = this.#options;
    const open = (attempt: AbortSignal) => connection.port.open(asked, attempt);
    return this.#retry(open, fileWithinMs, signal, 'the approval registry is unreachable');
  }

  /** The call with the submitter of its run, which the gate does not know. */
  #submitted(call: BoundCall): BoundCall {
    return { ...call, submitted_by: this.#options.submittedBy ?? null };
  }

  #decision(filed: FiledApproval, asked: AskedApproval, request: BoundRequest): Promise<FiledApproval> {
    const { signal, isResumable, server, tool } = request;
    const { connection, waits, say } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<FiledApproval>();
    const withdraw = () => {
      reject(new Error('the request was withdrawn'));
      if (!isResumable()) this.#withdraw(filed.id, reasonText(signal));
    };
    const late = () => resolve({ ...filed, status: 'denied', reason: 'no decision in time' });
    const timer = setTimeout(late, Math.min(filed.leftMs + GRACE_MS, MAX_TIMER_MS));
    const unfollow = connection.follow(filed.id, asked, (approval) => {
      over?.();
      resolve(approval);
    });
    const abandon = () => {
      clearTimeout(timer);
      unfollow();
    };
    const over = waits?.({ id: filed.id, request, abandon });
    say?.(`${server} ${tool} is waiting for an approval in the registry: spear approvals show ${filed.id}`);
    signal.addEventListener('abort', withdraw, { once: true });
    if (signal.aborted) withdraw();
    return promise.finally(() => {
      over?.();
      clearTimeout(timer);
      signal.removeEventListener('abort', withdraw);
      unfollow();
    });
  }

  /** Null: the request ended without an answer. */
  #answer(approval: FiledApproval, bound: BoundCall): RegistryAnswer | null {
    const by = approval.decidedBy.length === 0 ? null : approval.decidedBy.join(', ');
    if (approval.status === 'denied') return new RegistryAnswer('deny', approval.reason, by, null);
    const decision = approvalDecisions.find((known) => known === approval.decision);
    if (approval.status !== 'granted' || decision === undefined || decision === 'deny') return null;
    return new RegistryAnswer(decision, approval.reason, by, this.#grant(approval, bound));
  }

  #grant(approval: FiledApproval, bound: BoundCall): GrantHandle {
    const claim = randomBytes(16).toString('hex');
    let isRedeemed = false;
    let isTried = false;
    return {
      purpose: bound.purpose,
      leftMs: approval.leftMs,
      ageMs: approval.ageMs,
      get isRedeemed() {
        return isRedeemed;
      },
      redeem: async (call, args) => {
        isTried = true;
        const refusal = await this.#redeem(approval, claim, call, args);
        isRedeemed = refusal === null;
        return refusal;
      },
      drop: (why) => {
        if (!isTried) this.#withdraw(approval.id, why);
      },
    };
  }

  async #redeem(filed: FiledApproval, claim: string, call: BoundCall, args: JsonObject): Promise<RedeemRefusal | null> {
    const { port } = this.#options.connection;
    const hash = saltedHash(filed.salt, args);
    const unreachable = 'the registry that holds the approval is unreachable';
    try {
      const redeem = (attempt: AbortSignal) => port.claim(filed.id, claim, this.#submitted(call), hash, attempt);
      const refusal = await this.#retry(redeem, REDEEM_MS, this.#closed.signal, unreachable);
      return refusal === null ? null : { outdated: true, message: `the approval is not valid: ${refusal}` };
    } catch (error) {
      return { outdated: false, message: (error as Error).message };
    }
  }

  #withdraw(id: string, reason: string): void {
    const withdrawal = this.#options.connection.port
      .withdraw(id, reason, AbortSignal.timeout(WITHDRAW_MS))
      .catch(() => {}) // the request expires in the registry
      .finally(() => this.#inFlight.delete(withdrawal));
    this.#inFlight.add(withdrawal);
  }

  /** Retries until the work succeeds, the registry rejects it, or the time is over. */
  async #retry<T>(
    work: (attempt: AbortSignal) => Promise<T>,
    withinMs: number,
    signal: AbortSignal,
    unreachable: string,
  ): Promise<T> {
    const endsAt = performance.now() + withinMs;
    for (let failures = 0; ; ) {
      try {
        // Not cancelled by the signal: a request that was stored has to be known to be withdrawn.
        return await work(AbortSignal.timeout(ATTEMPT_MS));
      } catch (error) {
        if (error instanceof ApprovalRejected) throw error;
        if (signal.aborted) throw new Error('the request was withdrawn');
        failures += 1;
        const left = endsAt - performance.now();
        if (left <= 0) {
          // The cause is for the user of the process, not for a model.
          this.#options.say?.(`${unreachable}: ${(error as Error).message}`);
          throw new Error(`${unreachable} within ${withinMs} ms`);
        }
        await pause(Math.min(left, backoffMs(backoff, failures, Math)), signal);
      }
    }
  }
}

const denied = (reason: string) => new RegistryAnswer('deny', reason, null, null);

const reasonText = ({ reason }: AbortSignal) => (reason instanceof Error ? reason.message : 'the call was cancelled');

/** A definition larger than the registry accepts is shown without its schemas; the request is bound to its hash. */
function shownDefinition({ name, description, inputSchema, outputSchema, annotations }: JsonObject): string {
  const whole = canonicalJson({ name, description, inputSchema, outputSchema, annotations } as JsonObject);
  if (Buffer.byteLength(whole) <= approvalLimits.definitionBytes) return whole;
  const text = String(description).slice(0, approvalLimits.definitionBytes / 8);
  const empty = { inputSchema: {}, outputSchema: null, annotations: null };
  return canonicalJson({ name, description: text, ...empty } as JsonObject);
}

/** Ends early when the signal aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
  });
}
