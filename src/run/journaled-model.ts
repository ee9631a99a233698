import { BackendError, type ChatBackend, type ChatRequest, messageText } from '../agent/chat/backend.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { startOf } from '../base/text.ts';
import type { LastMessage } from '../runtime/durable/journal.ts';
import { ModelRequestDeltas } from '../runtime/durable/model-request-deltas.ts';
import type { RunJournal } from '../runtime/durable/run-journal.ts';
import type { FindBackend } from './choose-backend.ts';

/** Recorded length of a request's last message; a replay has all of it. */
const MAX_ASKED_CHARS = 4_096;

/**
 * Records requests and responses of models in the journal; a recorded response is returned without a request. `underway`
 * counts the requests in flight.
 */
export function journaledModel(
  find: FindBackend,
  journal: RunJournal,
  revision: () => number | null,
  underway: { models: number } = { models: 0 },
): (name: string | undefined, call: number) => Promise<ChatBackend> {
  const requests = new ModelRequestDeltas();
  return async (name, call) => {
    const backend = await find(name);
    let next = 0;
    let shown = '';
    const complete: ChatBackend['complete'] = async (request, signal, by) => {
      const n = next++;
      const known = journal.recorded?.modelResponse(call, n) ?? null;
      if (known?.body !== undefined) return known.body;
      if (known?.error !== undefined) throw new BackendError(known.error.code, known.error.message, known.error);
      const names = toolNames(request);
      const tools = names.join(' ') === shown ? {} : { tools: names };
      shown = names.join(' ');
      const model = typeof request.model === 'string' ? request.model : null;
      const { messages } = request;
      const images = backend.images === undefined || backend.images === 'none' ? {} : { images: backend.images };
      const asked = { call, n, backend: backend.name, model, messages: messages.length, ...lastOf(messages.at(-1)) };
      const said = requests.difference(by?.session ?? '', request);
      underway.models += 1;
      try {
        const writing = journal.asked({ ...asked, ...said, ...images, ...tools, revision: revision() }, request);
        if (writing !== undefined) await writing;
        const body = await backend.complete(request, signal, by);
        journal.answered({ call, n, body });
        return body;
      } catch (error) {
        // A cancelled or expired send has no response; its reply is recorded elsewhere.
        if (error instanceof BackendError && !signal.aborted) {
          const { code, message, retryable } = error;
          journal.answered({ call, n, error: { code, message, retryable } });
        }
        throw error;
      } finally {
        underway.models -= 1;
      }
    };
    const { name: called, model, images } = backend;
    return { name: called, model, images, complete, close: () => backend.close() };
  };
}

/** The last message of a request, as far as the journal does not have it elsewhere. */
function lastOf(message: JsonObject | undefined): { readonly last?: LastMessage } {
  const { role, tool_call_id: id } = message ?? {};
  if (typeof role !== 'string') return {};
  if (typeof id === 'string') return { last: { role, tool_call_id: id } };
  return { last: { role, text: startOf(messageText(message), MAX_ASKED_CHARS) } };
}

function toolNames({ tools }: ChatRequest): string[] {
  if (!Array.isArray(tools)) return [];
  return tools.map((tool: JsonValue) => String((isJsonObject(tool) ? (tool.function as JsonObject) : {})?.name ?? ''));
}
