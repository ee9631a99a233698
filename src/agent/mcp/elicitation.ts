import { abortWith, untilAborted } from '../../base/abort.ts';
import { limitSpecs } from '../../runtime/port/limits.ts';
import { type AuditEvent, NO_DECIDER } from '../../server/audit/event.ts';
import type { ApprovalOptions, GatedCall } from '../approvals/gate.ts';
import { QuestionWithdrawn } from '../approvals/pending.ts';
import { checkForm, type FormField } from './client/elicitation/form.ts';
import {
  type ElicitationAnswer,
  type ElicitationDecider,
  type Question,
  type QuestionReply,
  readElicitationAnswer,
} from './client/elicitation/question.ts';
import type { GuestScope } from './guest-scope.ts';

/** Pending questions per guest; a further one is cancelled. */
export const MAX_PENDING_ELICITATIONS = 32;

/** The reply to the server, and its record in the audit log. */
interface Outcome {
  readonly reply: QuestionReply;
  readonly decidedBy: string;
  readonly reason: string | null;
}

/** Passes questions that servers ask during calls of one guest to its decider, and records them in the audit log. */
export class ElicitationService {
  readonly #scope: Pick<GuestScope, 'run' | 'audit' | 'stopClocks'>;
  readonly #task: string | null;
  readonly #decidedBy: string;
  readonly #timeoutMs: number;
  readonly #closed = new AbortController();
  readonly #decide: ElicitationDecider | null;
  #open = 0;

  constructor(options: ApprovalOptions, scope: Pick<GuestScope, 'run' | 'audit' | 'stopClocks'>) {
    this.#scope = scope;
    this.#task = options.task ?? null;
    this.#decide = options.elicit ?? null;
    this.#decidedBy = options.decidedBy ?? 'program';
    this.#timeoutMs = options.timeoutMs ?? limitSpecs.approval_timeout_ms.default;
  }

  /** Withdraws every pending question. */
  close(): void {
    this.#closed.abort(new QuestionWithdrawn('no longer needed: the guest ended'));
  }

  /** The reply for the server. Never throws: a question that cannot be asked has a reply too. */
  async ask(call: GatedCall, question: Question, signal: AbortSignal): Promise<QuestionReply> {
    const startedAt = performance.now();
    const outcome = this.#refused(question) ?? (await this.#put(call, question, signal));
    return this.#record(call, question, outcome, performance.now() - startedAt);
  }

  #refused(question: Question): Outcome | null {
    const secret = question.mode === 'form' ? secretField(question.fields) : null;
    if (secret !== null) {
      return undecided('decline', `the form asks for ${JSON.stringify(secret)}: secrets must not be entered in a form`);
    }
    if (this.#decide === null) return undecided('decline', 'no user is available to answer');
    if (this.#open < MAX_PENDING_ELICITATIONS) return null;
    return undecided('cancel', 'too many requests for user input are pending');
  }

  async #put(call: GatedCall, question: Question, signal: AbortSignal): Promise<Outcome> {
    this.#audit({ event: 'elicitation.asked', ...about(call, question), host: hostOf(question) });
    const unanswered = new AbortController();
    const unlink = [
      abortWith(unanswered, signal, () => new QuestionWithdrawn(`no longer needed: ${wordsOf(signal.reason)}`)),
      abortWith(unanswered, this.#closed.signal),
    ];
    const timer = setTimeout(() => {
      unanswered.abort(new QuestionWithdrawn(`no answer within ${this.#timeoutMs} ms (approval_timeout_ms)`));
    }, this.#timeoutMs);
    this.#open += 1;
    const resumeClocks = this.#scope.stopClocks?.(call.session);
    try {
      const given = this.#answer(call, question, unanswered.signal);
      return await untilAborted(given, unanswered.signal, () => withdrawn(unanswered.signal));
    } finally {
      clearTimeout(timer);
      resumeClocks?.();
      for (const stop of unlink) stop();
      this.#open -= 1;
    }
  }

  async #answer(call: GatedCall, question: Question, signal: AbortSignal): Promise<Outcome> {
    const { session, callId, serverId: server, tool } = call;
    const who = { task: this.#task, run: this.#scope.run, session, callId, server, tool };
    const deadlineMs = Date.now() + this.#timeoutMs;
    let answer: ElicitationAnswer | null;
    try {
      answer = readElicitationAnswer(await this.#decide?.({ ...question, ...who, deadlineMs, signal }));
    } catch (error) {
      // Only the error's class: its message may contain anything.
      return this.#decided(
        'decline',
        `the elicitation handler failed (${error instanceof Error ? error.name : typeof error})`,
      );
    }
    if (answer === null) return this.#decided('decline', 'the elicitation handler returned an unknown answer');
    if (answer.action !== 'accept') return this.#decided(answer.action, null);
    if (question.mode === 'url') return this.#accepted({ action: 'accept', content: null });
    const checked = checkForm(question.fields, answer.content ?? {});
    if ('problem' in checked) return this.#decided('decline', `the answer does not match the form: ${checked.problem}`);
    return this.#accepted({ action: 'accept', content: checked.content });
  }

  #decided(action: 'decline' | 'cancel', reason: string | null): Outcome {
    return { reply: { action, why: reason }, decidedBy: this.#decidedBy, reason };
  }

  #accepted(reply: QuestionReply): Outcome {
    return { reply, decidedBy: this.#decidedBy, reason: null };
  }

  /** If the node makes no calls without the audit log, it gives no answers without it either. */
  async #record(call: GatedCall, question: Question, outcome: Outcome, durationMs: number): Promise<QuestionReply> {
    const { reply, decidedBy: decided_by, reason } = outcome;
    const how = { action: reply.action, decided_by, reason, duration_ms: Math.round(durationMs) };
    this.#audit({ event: 'elicitation.answered', ...about(call, question), ...how });
    const { written } = this.#scope.audit;
    if (reply.action !== 'accept' || written === undefined || (await written())) return reply;
    return { action: 'cancel', why: 'the audit log cannot be written (audit.on_failure)' };
  }

  #audit(event: AuditEvent): void {
    this.#scope.audit.write(this.#scope.run, event);
  }
}

const undecided = (action: 'decline' | 'cancel', reason: string): Outcome => ({
  reply: { action, why: reason },
  decidedBy: NO_DECIDER,
  reason,
});

/** The waiting side knows the reason, so the reply has none. */
const withdrawn = ({ reason }: AbortSignal): Outcome => ({
  reply: { action: 'cancel', why: null },
  decidedBy: NO_DECIDER,
  reason: wordsOf(reason),
});

function about({ session, callId, serverId, tool }: GatedCall, { mode }: Question) {
  return { session_id: session, request_id: callId, server_id: serverId, tool_name: tool, mode };
}

const hostOf = (question: Question) => (question.mode === 'url' ? new URL(question.url).host : null);

const wordsOf = (reason: unknown) => (reason instanceof Error ? reason.message : 'the call was cancelled');

// Detects secrets by field names, and prefers false positives: a secret belongs on a web page (url), not in a form.

const secretText =
  /\b(?:passwords?|passwd|passphrases?|passcodes?|pwd|secrets?|token|credentials?|api ?keys?|(?:access|private|secret|signing|encryption|ssh|recovery) ?keys?|(?:seed|recovery) (?:phrases?|codes?)|mnemonic|bearer|cookie|authorization|(?:session|connection) (?:id|string))\b/;
/** Secrets that may be numbers. */
const secretNumber =
  /\b(?:pin|otp|totp|mfa|2fa|cvv|cvc|csc|ssn|social security|(?:credit|debit|bank)? ?card ?(?:number|no)|(?:credit|debit) card|(?:one ?time|verification|security|auth|authentication|login) ?(?:code|password)|account number|iban)\b/;
const secretFormats = new Set(['password', 'secret', 'token']);

/** The first field of a form whose name suggests a secret; null: none. */
export function secretField(fields: readonly FormField[]): string | null {
  return fields.find(asksForSecret)?.name ?? null;
}

function asksForSecret(field: FormField): boolean {
  if (field.kind !== 'text' && field.kind !== 'number') return false;
  if (field.kind === 'text' && field.format !== null && secretFormats.has(field.format.toLowerCase())) return true;
  const names = [field.name, field.title ?? ''].map(words);
  return names.some((name) => secretNumber.test(name) || (field.kind === 'text' && secretText.test(name)));
}

/** Normalises names: `apiKey`, `API_KEY` and `api-key` become the same words, and accents are removed. */
function words(name: string): string {
  return name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/(?<=\p{Ll})(?=\p{Lu})/gu, ' ')
    .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
    .toLowerCase();
}
