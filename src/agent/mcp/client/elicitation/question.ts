import { isJsonObject, type JsonObject, type JsonValue } from '../../../../base/json.ts';
import { isSecureUrl } from '../../../../config/address.ts';
import { type Redact, redactStrings } from '../../../../server/secrets/redactor.ts';
import { type FormContent, type FormField, parseForm, UnusableQuestion } from './form.ts';

/** A question of a server for the user. All text is the server's. */
export type Question =
  | { readonly mode: 'form'; readonly message: string; readonly fields: readonly FormField[] }
  /** Asks the user to open a URL. What the user does there is not visible here. */
  | { readonly mode: 'url'; readonly message: string; readonly url: string };

/** The reply to the server. */
export type QuestionReply =
  | { readonly action: 'accept'; readonly content: FormContent | null }
  | {
      readonly action: 'decline' | 'cancel';
      /** For the log: why the user was not asked. Null: the user was asked. */
      readonly why: string | null;
    };

/** A call during which its server may ask questions. */
export interface QuestionTarget {
  /** `signal`: the server cancels the question. */
  ask(question: Question, signal: AbortSignal | null): Promise<QuestionReply>;
}

/** Length of the request as JSON. */
export const MAX_QUESTION_CHARS = 65_536;
export const MAX_QUESTION_MESSAGE_CHARS = 4_000;

/** Parses and redacts a question: a server must not show a secret to the user either. @throws UnusableQuestion */
export function parseQuestion(given: JsonValue | undefined, redact: Redact): Question {
  if (!isJsonObject(given)) throw new UnusableQuestion('the request has no params');
  const chars = jsonChars(given);
  if (chars > MAX_QUESTION_CHARS) {
    throw new UnusableQuestion(`the request has ${chars} characters; the limit is ${MAX_QUESTION_CHARS}`);
  }
  const params = redactStrings(given, redact);
  const { message, mode = 'form' } = params;
  if (typeof message !== 'string') throw new UnusableQuestion('the request has no message');
  if (message.length > MAX_QUESTION_MESSAGE_CHARS) {
    const most = MAX_QUESTION_MESSAGE_CHARS;
    throw new UnusableQuestion(`the message has ${message.length} characters; the limit is ${most}`);
  }
  if (mode === 'url') return { mode, message, url: parseQuestionUrl(params.url) };
  if (mode !== 'form') throw new UnusableQuestion('mode is neither "form" nor "url"');
  return { mode, message, fields: parseForm(params.requestedSchema) };
}

/** A URL that may be shown to a user: https or loopback, without a user name that could hide the host. */
function parseQuestionUrl(given: JsonValue | undefined): string {
  const url = typeof given === 'string' ? URL.parse(given) : null;
  if (url === null) throw new UnusableQuestion('the url is not valid');
  if (!isSecureUrl(url)) {
    throw new UnusableQuestion('the url must use https, or http on loopback');
  }
  if (url.username !== '' || url.password !== '') {
    throw new UnusableQuestion('the url must not contain a user name or password');
  }
  return url.href;
}

/** Infinite if the value is nested too deeply for JSON.stringify. */
function jsonChars(value: JsonObject): number {
  try {
    return JSON.stringify(value).length;
  } catch (error) {
    if (error instanceof RangeError) return Number.POSITIVE_INFINITY;
    throw error;
  }
}

/** A question of a server during a tool call, with the context of the call. Its text is not trusted. */
export type ElicitationRequest = Question & {
  /** Name of the task; null if it has none. */
  readonly task: string | null;
  readonly run: string;
  readonly session: string;
  readonly callId: string;
  readonly server: string;
  readonly tool: string;
  /** When the question expires, in milliseconds since 1970. */
  readonly deadlineMs: number;
  /** Aborts when the answer is no longer needed; the reason says why. */
  readonly signal: AbortSignal;
};

/** `accept` has the values of a form, or says that the URL was opened. */
export type ElicitationAnswer =
  | { readonly action: 'accept'; readonly content?: FormContent }
  | { readonly action: 'decline' | 'cancel' };

/**
 * Answers questions of servers: a prompt at a terminal, or a program. The values are validated against the form; the
 * question is declined if they are invalid or the decider throws.
 */
export type ElicitationDecider = (request: ElicitationRequest) => ElicitationAnswer | Promise<ElicitationAnswer>;

/** Validates the result of a decider; null: invalid. */
export function readElicitationAnswer(given: unknown): ElicitationAnswer | null {
  if (!isJsonObject(given)) return null;
  const { action, content } = given;
  if (action === 'decline' || action === 'cancel') return { action };
  if (action !== 'accept') return null;
  return { action, ...(content === undefined ? {} : { content: content as FormContent }) };
}
