import { BackendError, type ChatBackend } from '../agent/chat/backend.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import type { Attributes, Tracer } from '../server/telemetry/span.ts';
import { type SpanContext, traceparentOf } from '../server/telemetry/trace-context.ts';

/** All backends speak as OpenAI's chat completions do, whoever answers: that is what readers of the spans go by. */
const PROVIDER = 'openai';

export interface ModelSpans {
  readonly tracer: Tracer;
  readonly parent: SpanContext;
  /** Of what the conversations are parts. */
  readonly run: string;
}

/** The same backend; every turn is a span, and the provider is told which. Nothing that was said is in it. */
export function tracedBackend(backend: ChatBackend, { tracer, parent, run }: ModelSpans): ChatBackend {
  return {
    name: backend.name,
    model: backend.model,
    images: backend.images,
    complete: async (request, signal, by) => {
      const model = typeof request.model === 'string' ? request.model : backend.model;
      const span = tracer.begin({
        name: model === undefined ? 'chat' : `chat ${model}`,
        kind: 'client',
        parent,
        attributes: {
          'gen_ai.operation.name': 'chat',
          'gen_ai.provider.name': PROVIDER,
          ...(model === undefined ? {} : { 'gen_ai.request.model': model }),
          ...(by === undefined ? {} : { 'gen_ai.conversation.id': `${run}/${by.session}` }),
          ...(by?.deltas === undefined ? {} : { 'gen_ai.request.stream': true }),
          ...settings(request),
          'spear.backend': backend.name,
        },
      });
      const traced = {
        session: '',
        timeLeftMs: Number.POSITIVE_INFINITY,
        ...by,
        traceparent: traceparentOf(span.context),
      };
      try {
        const body = await backend.complete(request, signal, traced);
        span.set(answered(body));
        span.end();
        return body;
      } catch (error) {
        span.end(signal.aborted ? 'cancelled' : error instanceof BackendError ? error.code : 'failed');
        throw error;
      }
    },
    close: () => backend.close(),
  };
}

const settingNames = {
  temperature: 'gen_ai.request.temperature',
  top_p: 'gen_ai.request.top_p',
  max_tokens: 'gen_ai.request.max_tokens',
} as const;

function settings(request: JsonObject): Attributes {
  const found: Attributes = {};
  for (const [field, name] of Object.entries(settingNames)) {
    const value = request[field];
    if (typeof value === 'number') found[name] = value;
  }
  return found;
}

function answered({ id, model, usage, choices }: JsonObject): Attributes {
  const reasons = (Array.isArray(choices) ? choices : []).flatMap((choice) =>
    isJsonObject(choice) && typeof choice.finish_reason === 'string' ? [choice.finish_reason] : [],
  );
  const counts = isJsonObject(usage) ? usage : {};
  return {
    ...(typeof id === 'string' ? { 'gen_ai.response.id': id } : {}),
    ...(typeof model === 'string' ? { 'gen_ai.response.model': model } : {}),
    ...(reasons.length === 0 ? {} : { 'gen_ai.response.finish_reasons': reasons }),
    ...count('gen_ai.usage.input_tokens', counts.prompt_tokens),
    ...count('gen_ai.usage.output_tokens', counts.completion_tokens),
  };
}

const count = (name: string, value: JsonValue | undefined): Attributes =>
  Number.isSafeInteger(value) ? { [name]: Number(value) } : {};
