import { McpCancelledError, McpError } from '../mcp/client/errors.ts';
import { RegistryAnswer } from './client.ts';
import type { GrantBinding } from './grants.ts';
import { type ApprovalAnswer, type ApprovalDecider, type ApprovalRequest, readAnswer } from './request.ts';

/** Calls of one guest that wait for an answer at the same time; what comes on top is denied. */
export const MAX_PENDING_APPROVALS = 256;

/** How a question ended. */
export type ApprovalOutcome =
  | { readonly kind: 'answered'; readonly answer: ApprovalAnswer }
  | { readonly kind: 'timeout' }
  /** Another question was answered for the whole session, and with it this one. */
  | { readonly kind: 'covered' }
  /** Nobody waits for the answer any more. */
  | { readonly kind: 'withdrawn'; readonly error: McpError };

interface OpenQuestion {
  readonly binding: GrantBinding;
  readonly end: (outcome: ApprovalOutcome) => void;
}

/** Why no answer is wanted any more, in words for whoever was asked. */
export class QuestionWithdrawn extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'QuestionWithdrawn';
  }
}

/** The questions that are open now. Each ends by its answer, its deadline or its call's end, whichever comes first. */
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
      /** Null: whoever decides keeps the time. */
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

  /** Ends the questions that an answer for a whole session has answered too. */
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
    // Only its kind: the message of another's error may hold anything.
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
