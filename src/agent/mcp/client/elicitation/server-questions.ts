import type { ClientCapabilities, JSONRPCMessage } from '@modelcontextprotocol/client';
import type { JsonObject, JsonValue } from '../../../../base/json.ts';
import type { McpServerRecord } from '../../../../server/records/server.ts';
import type { Redact } from '../../../../server/secrets/redactor.ts';
import type { PoolLog } from '../pool-options.ts';
import { UnusableQuestion } from './form.ts';
import { parseQuestion, type QuestionReply, type QuestionTarget } from './question.ts';

interface ServerQuestionsDeps {
  readonly record: McpServerRecord;
  readonly redactContent: Redact;
  readonly log: PoolLog;
  send(message: JSONRPCMessage): Promise<void>;
}

/** Open questions per connection; above the limit they are cancelled. */
export const MAX_OPEN_QUESTIONS = 8;
/** Different warnings per server. */
const MAX_WARNINGS = 16;

const ELICIT = 'elicitation/create';
const ROOTS = 'roots/list';
const SAMPLE = 'sampling/createMessage';
const CANCELLED = 'notifications/cancelled';

const METHOD_NOT_FOUND = -32_601;
const INVALID_PARAMS = -32_602;

/** A request that the record does not permit. The server gets an error; the log says why. */
class QuestionRefused extends Error {
  readonly code: number;

  constructor(code: number, why: string) {
    super(why);
    this.code = code;
  }
}

/**
 * Answers the requests of one server: elicitation and roots. Old protocol versions send them as requests, new ones as
 * part of a call. Only what `client_features` of the record permits is answered.
 */
export class ServerQuestions {
  readonly #deps: ServerQuestionsDeps;
  readonly #open = new Map<string | number, AbortController>();
  readonly #warnings = new Set<string>();

  constructor(deps: ServerQuestionsDeps) {
    this.#deps = deps;
  }

  /**
   * Handles a message of the server; false: the message is of another kind. `call`: the call in flight; null: there is
   * not exactly one.
   */
  take(message: JSONRPCMessage, call: QuestionTarget | null): boolean {
    if (!('method' in message)) return false;
    const { method } = message;
    if (!('id' in message)) return method === CANCELLED && this.#cancelled(message.params?.requestId);
    if (method === SAMPLE) this.#warn('sent a sampling request, which is not supported');
    if (method !== ELICIT && method !== ROOTS) return false;
    void this.#answer(message.id, method, message.params as JsonObject | undefined, call);
    return true;
  }

  /**
   * The result of one request.
   * @throws UnusableQuestion, or QuestionRefused if the record does not permit the request
   */
  async reply(
    method: JsonValue | undefined,
    params: JsonValue | undefined,
    call: QuestionTarget | null,
    signal: AbortSignal | null,
  ): Promise<JsonObject> {
    try {
      if (method === ROOTS) return this.#roots();
      if (method === ELICIT) return await this.#elicit(params, call, signal);
      throw new QuestionRefused(METHOD_NOT_FOUND, 'sent a request that is not supported');
    } catch (error) {
      if (error instanceof UnusableQuestion)
        this.#warn(`sent an elicitation request that cannot be shown: ${error.message}`);
      else if (error instanceof QuestionRefused) this.#warn(error.message);
      throw error;
    }
  }

  async #answer(id: string | number, method: string, params: JsonObject | undefined, call: QuestionTarget | null) {
    if (this.#open.has(id)) return;
    const cancelled = new AbortController();
    const isFull = this.#open.size >= MAX_OPEN_QUESTIONS;
    if (!isFull) this.#open.set(id, cancelled);
    else this.#warn(`has more than ${MAX_OPEN_QUESTIONS} requests pending`);
    try {
      const result = isFull ? { action: 'cancel' } : await this.reply(method, params, call, cancelled.signal);
      if (!cancelled.signal.aborted) await this.#deps.send({ jsonrpc: '2.0', id, result });
    } catch (error) {
      const code = error instanceof QuestionRefused ? error.code : INVALID_PARAMS;
      const message = error instanceof Error ? error.message : 'the request cannot be answered';
      await this.#deps.send({ jsonrpc: '2.0', id, error: { code, message } }).catch(() => {});
    } finally {
      if (this.#open.get(id) === cancelled) this.#open.delete(id);
    }
  }

  #cancelled(id: unknown): boolean {
    const open = typeof id === 'string' || typeof id === 'number' ? this.#open.get(id) : undefined;
    open?.abort(new Error('the server cancelled its request'));
    return open !== undefined;
  }

  #roots(): JsonObject {
    const { roots } = this.#deps.record.client_features;
    if (roots.length === 0) {
      throw new QuestionRefused(
        METHOD_NOT_FOUND,
        'requested roots, but none are configured for this server (client_features.roots)',
      );
    }
    return { roots: roots.map(({ uri, name }) => ({ uri, ...(name === null ? {} : { name }) })) };
  }

  async #elicit(
    params: JsonValue | undefined,
    call: QuestionTarget | null,
    signal: AbortSignal | null,
  ): Promise<JsonObject> {
    const { elicitation: modes } = this.#deps.record.client_features;
    const refused = (mode: string) =>
      `requested user input (${mode}), which is not permitted for this server (client_features.elicitation)`;
    if (modes.length === 0) throw new QuestionRefused(METHOD_NOT_FOUND, refused('elicitation'));
    const question = parseQuestion(params, this.#deps.redactContent);
    if (!modes.includes(question.mode)) throw new QuestionRefused(INVALID_PARAMS, refused(question.mode));
    const reply = call === null ? duringNoCall : await call.ask(question, signal);
    if (reply.action === 'accept') {
      return { action: 'accept', ...(reply.content === null ? {} : { content: reply.content as JsonObject }) };
    }
    if (reply.why !== null) this.#warn(`requested user input and received "${reply.action}": ${reply.why}`);
    return { action: reply.action };
  }

  /** Logs each warning once, however often the server asks. */
  #warn(what: string): void {
    if (this.#warnings.size >= MAX_WARNINGS || this.#warnings.has(what)) return;
    this.#warnings.add(what);
    const { record, log } = this.#deps;
    const message = `server "${record.server_id}" ${what}`;
    log({ level: 'warn', event: 'question_refused', serverId: record.server_id, message });
  }
}

const duringNoCall: QuestionReply = {
  action: 'decline',
  why: 'the request names no call, and there is not exactly one call in flight (set "budgets.max_concurrency": 1)',
};

/** The client capabilities to announce: what the record permits, by default none. */
export function capabilitiesOf({ client_features: features }: McpServerRecord): ClientCapabilities {
  const { elicitation: modes, roots } = features;
  const form = modes.includes('form') ? { form: {} } : {};
  const url = modes.includes('url') ? { url: {} } : {};
  return {
    ...(modes.length === 0 ? {} : { elicitation: { ...form, ...url } }),
    ...(roots.length === 0 ? {} : { roots: {} }),
  };
}
