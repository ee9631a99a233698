import { McpCancelledError, McpError } from '../mcp/client/errors.ts';
import { RegistryAnswer } from './client.ts';
import type { GrantBinding } from './grants.ts';
import { type ApprovalAnswer, type ApprovalDecider, type ApprovalRequest, readAnswer } from './request.ts';

/** Pending requests of one guest at one time; further calls are denied. */
export const MAX_PENDING_APPROVALS = 256;

/** How a request ended. */
export type ApprovalOutcome =
  | { readonly kind: 'answered'; readonly answer: ApprovalAnswer }
  | { readonly kind: 'timeout' }
  /** A decision for the whole session covers this call. */
  | { readonly kind: 'covered' }
  /** The call ended first. */
  | { readonly kind: 'withdrawn'; readonly error: McpError };

interface OpenQuestion {
  readonly binding: GrantBinding;
  readonly end: (outcome: ApprovalOutcome) => void;
}

/** Why a request is no longer pending, as a sentence for the decider. */
export class QuestionWithdrawn extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'QuestionWithdrawn';
  }
}

/** Pending requests of one guest. Each ends by its decision, its deadline or the end of its call, whichever is first. */
export class PendingApprovals {
  readonly #open = new Set<OpenQuestion>();

  get isFull(): boolean {
    return this.#open.size >= MAX_PENDING_APPROVALS;
  }

  async ask(
    decide: ApprovalDecider,
    request: Omit<ApprovalRequest, 'signal' | 'deadlineMs'>,
    binding: GrantBinding,
    wait: {
      /** Null: the decider keeps the time. */
      readonly timeoutMs: number | null;
      readonly signal: AbortSignal;
    },
  ): Promise<ApprovalOutcome> {
    const { signal, timeoutMs } = wait;
    const { promise, resolve } = Promise.withResolvers<ApprovalOutcome>();
    const question: OpenQuestion = { binding, end: resolve };
    const withdraw = () => resolve({ kind: 'withdrawn', error: endOf(request.server, signal) });
    const timer = timeoutMs === null ? undefined : setTimeout(() => resolve({ kind: 'timeout' }), timeoutMs);
    const unanswered = new AbortController();
    this.#open.add(question);
    signal.addEventListener('abort', withdraw, { once: true });
    if (signal.aborted) withdraw();
    else {
      const deadlineMs = timeoutMs === null ? Number.POSITIVE_INFINITY : Date.now() + timeoutMs;
      answerOf(decide, { ...request, deadlineMs, signal: unanswered.signal }).then((answer) =>
        resolve({ kind: 'answered', answer }),
      );
    }
    const outcome = await promise;
    clearTimeout(timer);
    signal.removeEventListener('abort', withdraw);
    this.#open.delete(question);
    if (outcome.kind !== 'answered') unanswered.abort(new QuestionWithdrawn(wordsFor(outcome, timeoutMs)));
    return outcome;
  }

  /** Ends the requests that a session grant covers. */
  endCovered(isCovered: (binding: GrantBinding) => boolean): void {
    for (const { binding, end } of this.#open) if (isCovered(binding)) end({ kind: 'covered' });
  }

  endAll(error: (serverId: string) => McpError): void {
    for (const { binding, end } of this.#open) end({ kind: 'withdrawn', error: error(binding.server) });
  }
}

async function answerOf(decide: ApprovalDecider, request: ApprovalRequest): Promise<ApprovalAnswer> {
  try {
    const given = await decide(request);
    if (given instanceof RegistryAnswer) return given;
    return readAnswer(given) ?? { decision: 'deny', reason: 'the approval handler returned an unknown answer' };
  } catch (error) {
    // Only its type: the message of the error may hold anything.
    return {
      decision: 'deny',
      reason: `the approval handler failed (${error instanceof Error ? error.name : typeof error})`,
    };
  }
}

function endOf(serverId: string, { reason }: AbortSignal): McpError {
  return reason instanceof McpError ? reason : new McpCancelledError(serverId, 'the call was cancelled');
}

function wordsFor(outcome: Exclude<ApprovalOutcome, { kind: 'answered' }>, timeoutMs: number | null): string {
  switch (outcome.kind) {
    case 'timeout':
      return `no decision within ${timeoutMs} ms; denied`;
    case 'covered':
      return 'allowed for this session by another decision';
    case 'withdrawn':
      return `no longer needed: ${outcome.error.message}`;
  }
}
