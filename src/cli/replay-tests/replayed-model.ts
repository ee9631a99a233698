import { BackendError, type ChatBackend, type ChatRequest } from '../../agent/chat/backend.ts';
import { unknownBackend } from '../../agent/chat/backends/open-backend.ts';
import {
  forcedTool,
  type InjectedTools,
  type InjectionRequest,
  looksLikeMcp,
  noInjectedTools,
} from '../../agent/chat/injected-tools.ts';
import { isJsonObject, type JsonObject } from '../../base/json.ts';
import type { FindBackend } from '../../run/choose-backend.ts';
import { AnswerOrder, type Outcome } from './outcome.ts';
import type { RecordedHistory, RecordedRequest } from './recorded-history.ts';
import { requestDifference } from './request-difference.ts';

/** Model that answers recorded requests from a journal, and offers the recorded tools. */
export class ReplayedModel {
  readonly #history: RecordedHistory;
  readonly #outcome: Outcome;
  /** Requests per session so far. */
  readonly #made = new Map<string, number>();
  readonly #order = new AnswerOrder();

  constructor(history: RecordedHistory, outcome: Outcome) {
    this.#history = history;
    this.#outcome = outcome;
  }

  /** Number of recorded requests that the guest has repeated. */
  get made(): number {
    return [...this.#made.values()].reduce((sum, count) => sum + count, 0);
  }

  readonly find: FindBackend = async (name) => {
    const known = this.#history.allRequests.map(({ asked }) => asked);
    const first = known.find(({ backend }) => name === undefined || backend === name);
    if (first === undefined && name !== undefined)
      throw unknownBackend(
        name,
        known.map(({ backend }) => backend),
      );
    const { backend = 'none', model = null, images } = first ?? {};
    return {
      name: backend,
      model: model ?? undefined,
      ...(images === undefined ? {} : { images: images as NonNullable<ChatBackend['images']> }),
      complete: (request, signal, by) => this.#answer(by?.session ?? '', request, signal),
      close: async () => {},
    };
  };

  /** Tools that the session's next recorded request had. */
  inject({ session, params }: InjectionRequest): InjectedTools {
    const next = this.#history.requests(session)[this.#made.get(session) ?? 0];
    if (next === undefined || next.injected === null) return noInjectedTools;
    const { definitions, system, params: recorded } = next.injected;
    if (JSON.stringify(params) !== JSON.stringify(recorded)) {
      const texts = { recorded: JSON.stringify(recorded), now: JSON.stringify(params) };
      this.#outcome.differs({ kind: 'request', where: `the mcp.* parameters of ${session}`, ...texts });
    }
    const names = new Set(definitions.map(nameOf));
    return {
      definitions,
      systemMessage: system,
      owns: (name) => names.has(name) || looksLikeMcp(name) || this.#wasOwned(session, name),
      toolChoice: (choice) => {
        const forced = forcedTool(choice);
        return forced === null || names.has(forced) ? choice : null;
      },
      run: async (calls) =>
        calls.map(({ id, name, ordinal = '' }) =>
          this.#result(session, id, name, ordinal.split('.').slice(1).join('.')),
        ),
    };
  }

  async #answer(session: string, request: ChatRequest, signal: AbortSignal): Promise<JsonObject> {
    const index = this.#made.get(session) ?? 0;
    const recorded = this.#history.requests(session)[index];
    const where = `request ${index + 1} of ${session}`;
    if (recorded === undefined) {
      if (this.#history.end === null) throw this.#outcome.ends();
      const last = messageOf(request.messages.at(-1));
      throw this.#outcome.differs({
        kind: 'request',
        where,
        recorded: 'no request',
        now: `a request with: ${last}`,
      });
    }
    this.#made.set(session, index + 1);
    const found = requestDifference(recorded, request);
    if (found !== null) {
      const { what, ...texts } = found;
      throw this.#outcome.differs({ kind: 'request', where: `${where}, ${what}`, ...texts });
    }
    const { answered, order, gapMs } = recorded;
    if (answered !== null) await this.#order.turn(order, gapMs, signal);
    if (answered?.body !== undefined) return answered.body;
    if (answered?.error === undefined) throw this.#outcome.ends();
    throw new BackendError(answered.error.code, answered.error.message, answered.error);
  }

  /** Whether the recorded run answered a call of that name though no tool of that name was shown. */
  #wasOwned(session: string, name: string): boolean {
    const last = this.#lastOf(session);
    return callsOf(last).some((call, at) => nameOf(call) === name && this.#finished(last, `${at + 1}`) !== null);
  }

  #result(session: string, id: string, name: string, place: string): string {
    const last = this.#lastOf(session);
    const [, position = ''] = place.split('.');
    const finished = this.#finished(last, position);
    // The text sent to the model may add to the result, such as how to read the links in it.
    const next = this.#history.requests(session)[this.#made.get(session) ?? 0];
    const told = next?.messages.find(({ role, tool_call_id }) => role === 'tool' && tool_call_id === id)?.content;
    if (typeof told === 'string' && last?.asked.images === undefined) return told;
    if (finished !== null) return finished;
    throw this.#outcome.ends(`the journal has no result for the call of ${name}`);
  }

  #finished(request: RecordedRequest | undefined, position: string): string | null {
    if (request === undefined) return null;
    const { call, n } = request.asked;
    return this.#history.result(`${call}.${request.turnsBefore + n + 1}.${position}`);
  }

  #lastOf(session: string): RecordedRequest | undefined {
    return this.#history.requests(session)[(this.#made.get(session) ?? 0) - 1];
  }
}

function callsOf(request: RecordedRequest | undefined): JsonObject[] {
  const choices = request?.answered?.body?.choices;
  const first = Array.isArray(choices) ? choices[0] : undefined;
  const message = isJsonObject(first) ? first.message : undefined;
  const calls = isJsonObject(message) ? message.tool_calls : undefined;
  return Array.isArray(calls) ? calls.filter(isJsonObject) : [];
}

const nameOf = ({ function: fn }: JsonObject): string => String(isJsonObject(fn) ? fn.name : '');

function messageOf(message: JsonObject | undefined): string {
  const content = message?.content;
  return typeof content === 'string' ? content : JSON.stringify(content ?? null);
}
