import { BackendError, type ChatBackend } from '../agent/chat/backend.ts';
import type { CallTrace, TracedCall } from '../agent/mcp/guest-scope.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import type { RunResult } from '../runtime/host/run-result.ts';
import {
  type AuditEvent,
  type AuditSink,
  type CallFinished,
  type CallStarted,
  writeRefused,
} from '../server/audit/event.ts';
import { type Attributes, nowMs, type RunTracing, type Span, type Tracer } from '../server/telemetry/span.ts';
import { newSpanId, type SpanContext, traceOfRun, traceparentOf } from '../server/telemetry/trace-context.ts';
import type { CompiledRunOptions } from './run-options.ts';

/**
 * Spans of one run: the attempt, its model calls, its tool calls and what those wait for. Wraps backend and audit sink of
 * the run's options; tool call spans are derived from audit events. Not created without tracing. Spans contain names,
 * sizes and outcomes, never content.
 */
export class RunTrace {
  readonly options: CompiledRunOptions;
  readonly calls: CallTrace;
  readonly traceId: string;
  readonly #span: Span;

  constructor(
    options: CompiledRunOptions,
    { tracer, parent, agent: named, name, attributes }: RunTracing,
    attempt: number,
  ) {
    const { run } = options;
    const agent = named ?? options.args[0] ?? 'guest';
    const started = {
      name: name ?? `invoke_agent ${agent}`,
      parent,
      attributes: {
        ...(name === undefined ? agentAttributes(agent) : {}),
        'spear.run.id': run,
        'spear.run.attempt': attempt,
        'spear.namespace': options.namespace,
        ...attributes,
      },
    };
    this.#span = parent === null ? tracer.begin({ ...started, context: newTrace(tracer, run) }) : tracer.begin(started);
    const { context } = this.#span;
    this.traceId = context.traceId;
    const calls = new CallSpans(tracer, context);
    this.calls = calls;
    const backend = async (wanted: string | undefined): Promise<ChatBackend> =>
      tracedBackend(await options.backend(wanted), { tracer, parent: context, run });
    this.options = Object.freeze({ ...options, backend, audit: tracedAudit(options.audit, calls, context.traceId) });
  }

  ended({ reason, exitCode }: Pick<RunResult, 'reason' | 'exitCode'>): void {
    this.#span.set({ 'spear.run.end': reason, ...(exitCode === null ? {} : { 'process.exit.code': exitCode }) });
    this.#span.end(reason === 'exit' && exitCode === 0 ? null : reason);
  }
}

export const agentAttributes = (agent: string): Attributes => ({
  'gen_ai.operation.name': 'invoke_agent',
  'gen_ai.provider.name': 'spear',
  'gen_ai.agent.name': agent,
});

/** Attempts of a run without parent are separate root spans in one trace. */
function newTrace(tracer: Tracer, run: string): SpanContext {
  const { traceId } = traceOfRun(run);
  return { traceId, spanId: newSpanId(), isSampled: tracer.samples(traceId, null) };
}

/** Adds the trace id to audit events, and feeds them to the spans. */
function tracedAudit(audit: AuditSink, calls: CallSpans, trace_id: string): AuditSink {
  const traced = <Event extends AuditEvent>(event: Event): Event => ({ ...event, trace_id });
  return {
    write: (instance, event) => {
      calls.observe(event);
      audit.write(instance, traced(event));
    },
    writeRefused: (instance, started, finished) => {
      calls.observe(finished);
      writeRefused(audit, instance, traced(started), traced(finished));
    },
    ...(audit.written ? { written: audit.written } : {}),
    ...(audit.showArguments ? { showArguments: audit.showArguments } : {}),
    ...(audit.keepArguments ? { keepArguments: audit.keepArguments } : {}),
  };
}

type Kind = 'tool' | 'resource' | 'prompt';
type QuestionEvent = Extract<AuditEvent, { event: 'approval.asked' | 'elicitation.asked' }>;
type AnswerEvent = Extract<AuditEvent, { event: 'approval.decided' | 'elicitation.answered' }>;

/** A shorter wait for a server has no span. */
const SHORTEST_WAIT_MS = 1;
/** Maximum of tracked calls, far above the limits of a run. Further calls have no wait spans. */
const MAX_OPEN = 4_096;

const methods: Readonly<Record<Kind, string>> = {
  tool: 'tools/call',
  resource: 'resources/read',
  prompt: 'prompts/get',
};

interface OpenCall {
  readonly span: Span;
  readonly serverId: string | null;
  /** Start of the wait for a free slot of the server; null: the call was sent. */
  waitsSinceMs: number | null;
  /** Span of a pending approval or elicitation. */
  question: Span | null;
}

/** Spans of the tool calls of a run and their waits, derived from its audit events. */
export class CallSpans implements CallTrace {
  readonly #tracer: Tracer;
  readonly #parent: SpanContext;
  /** By session and call id. Models may reuse an id; the last call counts. */
  readonly #open = new Map<string, OpenCall[]>();
  #count = 0;

  constructor(tracer: Tracer, parent: SpanContext) {
    this.#tracer = tracer;
    this.#parent = parent;
  }

  made({ session, callId, serverId, tool, kind = 'tool' }: TracedCall): string {
    const span = this.#begin(kind, { serverId, tool, callId });
    this.#keep(keyOf(session, callId), { span, serverId, waitsSinceMs: nowMs(), question: null });
    return traceparentOf(span.context);
  }

  observe(event: AuditEvent): void {
    switch (event.event) {
      case 'tool_call.started':
        this.#started(event);
        return;
      case 'tool_call.finished':
        this.#finished(event);
        return;
      case 'approval.asked':
      case 'elicitation.asked':
        this.#asked(event);
        return;
      case 'approval.decided':
      case 'elicitation.answered':
        this.#answered(event);
    }
  }

  #started(event: CallStarted): void {
    if (event.source === 'mcp') {
      const call = this.#last(event);
      if (call?.waitsSinceMs == null) return;
      const waited = nowMs() - call.waitsSinceMs;
      if (waited >= SHORTEST_WAIT_MS) {
        const attributes = { 'spear.mcp.server': call.serverId ?? '' };
        const start = { name: 'wait for server', parent: call.span.context, startMs: call.waitsSinceMs, attributes };
        this.#tracer.begin(start).end();
      }
      call.waitsSinceMs = null;
      return;
    }
    const span = this.#begin('tool', { serverId: null, tool: event.tool_name, callId: event.request_id });
    this.#keep(keyOf(event.session_id, event.request_id), { span, serverId: null, waitsSinceMs: null, question: null });
  }

  #finished(event: CallFinished): void {
    const call = this.#take(event);
    const { kind = 'tool', server_id: serverId, request_id: callId } = event;
    // An unknown tool name comes from the model only, and is untrusted.
    const tool = serverId === null && event.source === 'mcp' && event.status === 'denied' ? null : event.tool_name;
    const startMs = nowMs() - event.duration_ms;
    const span = call?.span ?? this.#begin(kind, { serverId, tool, callId }, startMs);
    span.set({ 'spear.tool.output_bytes': event.output_bytes });
    call?.question?.end('cancelled');
    span.end(event.status === 'ok' ? null : (event.reason ?? event.status));
  }

  #asked(event: QuestionEvent): void {
    const call = this.#last(event);
    const isApproval = event.event === 'approval.asked';
    const attributes: Attributes = {
      'spear.mcp.server': event.server_id ?? '',
      ...(isApproval ? { 'spear.approval.reason': event.reason } : { 'spear.elicitation.mode': event.mode }),
    };
    const name = isApproval ? 'approval' : 'elicitation';
    const span = this.#tracer.begin({ name, parent: call?.span.context ?? this.#parent, attributes });
    if (call === undefined) return; // the answer could not be matched
    call.question?.end('cancelled');
    call.question = span;
  }

  #answered(event: AnswerEvent): void {
    const call = this.#last(event);
    if (call?.question == null) return;
    const isApproval = event.event === 'approval.decided';
    const outcome = isApproval ? event.decision : event.action;
    call.question.set({ [isApproval ? 'spear.approval.decision' : 'spear.elicitation.action']: outcome });
    call.question.end(outcome === 'timeout' || outcome === 'cancelled' ? outcome : null);
    call.question = null;
    if (call.waitsSinceMs !== null) call.waitsSinceMs = nowMs();
  }

  #begin(
    kind: Kind,
    { serverId, tool, callId }: { serverId: string | null; tool: string | null; callId: string },
    startMs?: number,
  ): Span {
    const isTool = kind === 'tool';
    const method = methods[kind];
    const named = tool !== null && kind !== 'resource'; // the URI of a resource may contain anything
    const what = isTool ? 'execute_tool' : method;
    return this.#tracer.begin({
      name: named ? `${what} ${tool}` : what,
      kind: serverId === null ? 'internal' : 'client',
      parent: this.#parent,
      startMs,
      attributes: {
        ...(isTool ? { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.call.id': callId } : {}),
        ...(isTool ? { 'gen_ai.tool.type': serverId === null ? 'function' : 'extension' } : {}),
        ...(named ? { [isTool ? 'gen_ai.tool.name' : 'gen_ai.prompt.name']: tool } : {}),
        ...(serverId === null ? {} : { 'mcp.method.name': method, 'spear.mcp.server': serverId }),
      },
    });
  }

  #keep(key: string, call: OpenCall): void {
    if (this.#count >= MAX_OPEN) return;
    this.#count += 1;
    const calls = this.#open.get(key);
    if (calls === undefined) this.#open.set(key, [call]);
    else calls.push(call);
  }

  #last({ session_id: session, request_id: call }: CallKey): OpenCall | undefined {
    return this.#open.get(keyOf(session, call))?.at(-1);
  }

  #take({ session_id: session, request_id: call }: CallKey): OpenCall | undefined {
    const key = keyOf(session, call);
    const calls = this.#open.get(key);
    const taken = calls?.pop();
    if (taken !== undefined) this.#count -= 1;
    if (calls?.length === 0) this.#open.delete(key);
    return taken;
  }
}

type CallKey = Pick<CallFinished, 'session_id' | 'request_id'>;

const keyOf = (session: string | null, call: string): string => `${session}\0${call}`;

/** All backends use the format of OpenAI's chat completions, which readers of spans expect under this name. */
const PROVIDER = 'openai';

export interface ModelSpans {
  readonly tracer: Tracer;
  readonly parent: SpanContext;
  /** Id of the run, for conversation ids. */
  readonly run: string;
}

/** Adds a span to every request, and passes its context to the provider. Spans contain no messages. */
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
