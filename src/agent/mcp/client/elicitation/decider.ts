import { isJsonObject } from '../../../../base/json.ts';
import type { FormContent } from './form-values.ts';
import type { Question } from './question.ts';

/** What a server asks during a call of one of its tools. Every word of the question is the server's: not to be trusted. */
export type ElicitationRequest = Question & {
  /** Name of the task; null if it has none. */
  readonly task: string | null;
  readonly run: string;
  readonly session: string;
  readonly callId: string;
  readonly server: string;
  readonly tool: string;
  /** When the question is cancelled without an answer, in milliseconds since 1970. */
  readonly deadlineMs: number;
  /** Aborts when no answer is wanted any more; its reason says why in words. */
  readonly signal: AbortSignal;
};

/** `accept` brings what was filled in (form), or says that the address was opened (url). */
export type ElicitationAnswer =
  | { readonly action: 'accept'; readonly content?: FormContent }
  | { readonly action: 'decline' | 'cancel' };

/**
 * Who answers what servers ask: a person at a terminal, or a program. What it fills in is checked by the form; if that
 * does not fit, or it throws, the server is told no.
 */
export type ElicitationDecider = (request: ElicitationRequest) => ElicitationAnswer | Promise<ElicitationAnswer>;

/** Makes an answer of whatever a decider gave; null if it is none. */
export function readElicitationAnswer(given: unknown): ElicitationAnswer | null {
  if (!isJsonObject(given)) return null;
  const { action, content } = given;
  if (action === 'decline' || action === 'cancel') return { action };
  if (action !== 'accept') return null;
  return { action, ...(content === undefined ? {} : { content: content as FormContent }) };
}
