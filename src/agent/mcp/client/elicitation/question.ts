import { isJsonObject, type JsonObject, type JsonValue } from '../../../../base/json.ts';
import { type Redact, redactStrings } from '../../../../server/secrets/redactor.ts';
import { type FormContent, type FormField, parseForm, UnusableQuestion } from './form.ts';

/** What a server asks of whoever runs the guest. All words are its own. */
export type Question =
  | { readonly mode: 'form'; readonly message: string; readonly fields: readonly FormField[] }
  /** Somebody is to open an address; nothing of what is done there passes here. */
  | { readonly mode: 'url'; readonly message: string; readonly url: string };

/** What the server gets for it. */
export type QuestionReply =
  | { readonly action: 'accept'; readonly content: FormContent | null }
  | {
      readonly action: 'decline' | 'cancel';
      /** Why nobody was asked, for the log; null: somebody was. */
      readonly why: string | null;
    };

/** A call, as far as its server can ask something during it. */
export interface AskedCall {
  /** `signal`: the server takes the question back. */
  asked(question: Question, signal: AbortSignal | null): Promise<QuestionReply>;
}

/** The whole of it as JSON. */
export const MAX_QUESTION_CHARS = 65_536;
export const MAX_QUESTION_MESSAGE_CHARS = 4_000;

/** What `redact` knows is shown to nobody, not even in a server's own words. @throws UnusableQuestion */
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
  if (mode === 'url') return { mode, message, url: parseAddress(params.url) };
  if (mode !== 'form') throw new UnusableQuestion('mode is neither "form" nor "url"');
  return { mode, message, fields: parseForm(params.requestedSchema) };
}

/** An address that a person may be shown: encrypted, or on this machine, and not one that hides where it leads. */
function parseAddress(given: JsonValue | undefined): string {
  const url = typeof given === 'string' ? URL.parse(given) : null;
  if (url === null) throw new UnusableQuestion('the url is not valid');
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopback(url.hostname))) {
    throw new UnusableQuestion('the url must use https, or http on loopback');
  }
  if (url.username !== '' || url.password !== '') {
    throw new UnusableQuestion('the url must not contain a user name or password');
  }
  return url.href;
}

const isLoopback = (host: string) => host === 'localhost' || host === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(host);

/** Without end where it is nested beyond all measure. */
function jsonChars(value: JsonObject): number {
  try {
    return JSON.stringify(value).length;
  } catch (error) {
    if (error instanceof RangeError) return Number.POSITIVE_INFINITY;
    throw error;
  }
}

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
