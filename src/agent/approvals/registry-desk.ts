import { randomBytes } from 'node:crypto';
import { type Backoff, backoffMs } from '../../base/backoff.ts';
import { canonicalJson, type JsonObject, type JsonValue } from '../../base/json.ts';
import {
  type ApprovalPort,
  ApprovalRejected,
  type AskedApproval,
  type FiledApproval,
} from '../../registry-client/approval-port.ts';
import {
  type ApprovalDecision,
  approvalDecisions,
  approvalLimits,
  type BoundCall,
  saltedHash,
} from '../../server/records/approval.ts';
import {
  type ApprovalDesk,
  type ClaimRefusal,
  DeskAnswer,
  type DeskQuestion,
  type GrantTicket,
  type WatchWait,
} from './desk.ts';

export interface RegistryDeskOptions {
  readonly port: ApprovalPort;
  readonly run: string;
  /** Of the run. @default the node's own */
  readonly namespace?: string | null;
  /** User who submitted the run. @default unknown */
  readonly submittedBy?: string | null;
  /** Receives each approval request that is pending. @default none */
  readonly waits?: WatchWait | undefined;
  /** How long the registry may be away before a request is there, from which on it keeps the time. */
  readonly fileWithinMs: number;
  /** Something that somebody should know. @default nobody is told */
  readonly say?: (text: string) => void;
}

const backoff: Backoff = { firstMs: 100, maxMs: 5_000 };
/** Of one attempt to reach the registry. */
const ATTEMPT_MS = 10_000;
/** A call that has its place waits no longer than this for its yes to be taken. */
const CLAIM_MS = 30_000;
/** The registry says first that the time is over, if it is there. */
const GRACE_MS = 5_000;
const MAX_TIMER_MS = 2 ** 31 - 1;
/** A request that ended without an answer is made anew, so often. */
const MAX_REQUESTS = 4;
const WITHDRAW_MS = 2_000;
/** A definition that is larger than the registry takes is shown without its schemas; what it is bound to is its hash. */
const MAX_DEFINITION_BYTES = approvalLimits.definitionBytes;

/** Asks the people of a registry. A request is there before it is waited for, and found again by a run that is resumed. */
export class RegistryDesk implements ApprovalDesk {
  readonly #options: RegistryDeskOptions;
  readonly #waiting = new Map<string, (approval: FiledApproval) => void>();
  readonly #closed = new AbortController();
  /** What the registry is still asked or told. */
  readonly #underway = new Set<Promise<void>>();
  #watch: Promise<void> | null = null;

  constructor(options: RegistryDeskOptions) {
    this.#options = options;
  }

  ask(question: DeskQuestion): Promise<DeskAnswer> {
    const asking = this.#ask(question);
    const over: Promise<void> = asking.then(() => void this.#underway.delete(over));
    this.#underway.add(over);
    return asking;
  }

  async #ask(question: DeskQuestion): Promise<DeskAnswer> {
    try {
      for (let requests = 1; ; requests++) {
        const filed = await this.#file(question);
        const decided = filed.status === 'waiting' ? await this.#decision(filed, question) : filed;
        const answer = this.#answer(decided, question.bound);
        if (answer !== null) return answer;
        if (requests === MAX_REQUESTS) return denied(`the approval request is ${decided.status}`);
      }
    } catch (error) {
      return denied((error as Error).message);
    }
  }

  /** Takes back what is to be taken back, for a short time. */
  async close(): Promise<void> {
    this.#closed.abort(new Error('the run ended'));
    const farewell = async () => {
      while (this.#underway.size > 0) await Promise.all(this.#underway);
    };
    const patience = new AbortController();
    await Promise.race([farewell(), pause(WITHDRAW_MS, patience.signal)]);
    patience.abort();
  }

  #file({ bound, callId, arguments: args, definition, cause, signal }: DeskQuestion): Promise<FiledApproval> {
    const { port, fileWithinMs, namespace = null } = this.#options;
    const asked: AskedApproval = {
      namespace,
      call: this.#submitted(bound),
      callId,
      argumentsJson: canonicalJson(args),
      definitionJson: shownDefinition(definition as unknown as JsonObject),
      causeCode: cause.code,
      causeText: cause.text,
      // Whoever watches its waits may give it up, and take it up again.
      isKept: this.#options.waits !== undefined,
    };
    const what = 'the approval registry is unreachable';
    return this.#insist((attempt) => port.open(asked, attempt), fileWithinMs, signal, what);
  }

  /** The call with the submitter of its run, which the gate does not know. */
  #submitted(call: BoundCall): BoundCall {
    return { ...call, submitted_by: this.#options.submittedBy ?? null };
  }

  #decision(filed: FiledApproval, question: DeskQuestion): Promise<FiledApproval> {
    const { signal, isResumable } = question;
    const { promise, resolve, reject } = Promise.withResolvers<FiledApproval>();
    const withdrawn = () => {
      reject(new Error('the request was withdrawn'));
      if (!isResumable()) this.#withdraw(filed.id, reasonText(signal));
    };
    const late = () => resolve({ ...filed, status: 'denied', reason: 'no decision in time' });
    const timer = setTimeout(late, Math.min(filed.leftMs + GRACE_MS, MAX_TIMER_MS));
    const over = this.#options.waits?.({
      request: filed.id,
      question,
      abandon: () => {
        clearTimeout(timer);
        this.#waiting.delete(filed.id);
      },
    });
    this.#waiting.set(filed.id, (approval) => {
      over?.();
      resolve(approval);
    });
    const { server, tool } = question;
    this.#options.say?.(
      `${server} ${tool} is waiting for an approval in the registry: spear approvals show ${filed.id}`,
    );
    signal.addEventListener('abort', withdrawn, { once: true });
    if (signal.aborted) withdrawn();
    this.#watch ??= this.#follow();
    return promise.finally(() => {
      over?.();
      clearTimeout(timer);
      signal.removeEventListener('abort', withdrawn);
      this.#waiting.delete(filed.id);
    });
  }

  /** Hears of decisions for as long as one is waited for. What was missed while the registry was away comes first. */
  async #follow(): Promise<void> {
    let failures = 0;
    const { port, run, say } = this.#options;
    while (this.#waiting.size > 0 && !this.#closed.signal.aborted) {
      const stream = new AbortController();
      const end = () => stream.abort();
      this.#closed.signal.addEventListener('abort', end, { once: true });
      try {
        for await (const approval of port.watch(run, stream.signal)) {
          if (failures > 0) say?.('the approval registry is reachable again');
          failures = 0;
          if (approval !== null && approval.status !== 'waiting') this.#waiting.get(approval.id)?.(approval);
          await Promise.resolve(); // whoever waited for it leaves first
          if (this.#waiting.size === 0) break;
        }
      } catch (error) {
        failures += 1;
        if (failures === 1 && !this.#closed.signal.aborted) {
          say?.(`the approval registry is unreachable; waiting for its decision: ${(error as Error).message}`);
        }
      } finally {
        stream.abort();
        this.#closed.signal.removeEventListener('abort', end);
      }
      if (this.#waiting.size > 0) await pause(backoffMs(backoff, Math.max(1, failures), Math), this.#closed.signal);
    }
    this.#watch = null;
  }

  /** Null: it ended without an answer to this. */
  #answer(approval: FiledApproval, bound: BoundCall): DeskAnswer | null {
    const by = approval.decidedBy.length === 0 ? null : approval.decidedBy.join(', ');
    if (approval.status === 'denied') return new DeskAnswer('deny', approval.reason, by, null);
    const decision = approvalDecisions.find((known) => known === approval.decision);
    if (approval.status !== 'granted' || decision === undefined || decision === 'deny') return null;
    return this.#granted(approval, decision, bound, by);
  }

  #granted(approval: FiledApproval, decision: ApprovalDecision, bound: BoundCall, by: string | null): DeskAnswer {
    const claim = randomBytes(16).toString('hex');
    let isClaimed = false;
    let isTried = false;
    const ticket: GrantTicket = {
      purpose: bound.purpose,
      leftMs: approval.leftMs,
      ageMs: approval.ageMs,
      get isClaimed() {
        return isClaimed;
      },
      claim: async (call, args) => {
        isTried = true;
        const refusal = await this.#claim(approval, claim, call, args);
        isClaimed = refusal === null;
        return refusal;
      },
      drop: (why) => {
        if (!isTried) this.#withdraw(approval.id, why);
      },
    };
    return new DeskAnswer(decision, approval.reason, by, ticket);
  }

  async #claim(filed: FiledApproval, claim: string, call: BoundCall, args: JsonObject): Promise<ClaimRefusal | null> {
    const { port } = this.#options;
    const hash = saltedHash(filed.salt, args);
    const what = 'the registry that holds the approval is unreachable';
    try {
      const take = (attempt: AbortSignal) => port.claim(filed.id, claim, this.#submitted(call), hash, attempt);
      const refusal = await this.#insist(take, CLAIM_MS, this.#closed.signal, what);
      if (refusal === null) return null;
      return { outdated: true, message: `the approval is not valid: ${refusal}` };
    } catch (error) {
      return { outdated: false, message: (error as Error).message };
    }
  }

  #withdraw(id: string, reason: string): void {
    const farewell = this.#options.port
      .withdraw(id, reason, AbortSignal.timeout(WITHDRAW_MS))
      .catch(() => {}) // it ends by itself when its time is over
      .finally(() => this.#underway.delete(farewell));
    this.#underway.add(farewell);
  }

  /** Tries again until it works, it can not, or the time is over. */
  async #insist<T>(
    work: (attempt: AbortSignal) => Promise<T>,
    withinMs: number,
    signal: AbortSignal,
    what: string,
  ): Promise<T> {
    const endsAt = performance.now() + withinMs;
    for (let failures = 0; ; ) {
      try {
        // To its end, also where nobody wants it any more: what it made has to be known to be taken back.
        return await work(AbortSignal.timeout(ATTEMPT_MS));
      } catch (error) {
        if (error instanceof ApprovalRejected) throw error;
        if (signal.aborted) throw new Error('the request was withdrawn');
        failures += 1;
        const left = endsAt - performance.now();
        if (left <= 0) {
          // What exactly failed is for whoever runs it, not for a model.
          this.#options.say?.(`${what}: ${(error as Error).message}`);
          throw new Error(`${what} within ${withinMs} ms`);
        }
        await pause(Math.min(left, backoffMs(backoff, failures, Math)), signal);
      }
    }
  }
}

const denied = (reason: string) => new DeskAnswer('deny', reason, null, null);

const reasonText = ({ reason }: AbortSignal) => (reason instanceof Error ? reason.message : 'the call was cancelled');

function shownDefinition(definition: JsonObject): string {
  const { name, description, inputSchema, outputSchema, annotations } = definition as Record<string, JsonValue>;
  const whole = canonicalJson({ name, description, inputSchema, outputSchema, annotations } as JsonObject);
  if (Buffer.byteLength(whole) <= MAX_DEFINITION_BYTES) return whole;
  const text = String(description).slice(0, MAX_DEFINITION_BYTES / 8);
  return canonicalJson({
    name,
    description: text,
    inputSchema: {},
    outputSchema: null,
    annotations: null,
  } as JsonObject);
}

/** Or less, if the signal aborts. */
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
