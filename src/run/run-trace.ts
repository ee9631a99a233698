import type { ChatBackend } from '../agent/chat/backend.ts';
import type { CallTrace } from '../agent/mcp/guest-scope.ts';
import type { RunResult } from '../runtime/host/run-result.ts';
import { type AuditEvent, type AuditSink, writeRefused } from '../server/audit/event.ts';
import type { Attributes, RunTracing, Span, Tracer } from '../server/telemetry/span.ts';
import { newSpanId, type SpanContext, traceOfRun } from '../server/telemetry/trace-context.ts';
import { CallSpans } from './call-spans.ts';
import type { CompiledRunOptions } from './run-options.ts';
import { tracedBackend } from './traced-backend.ts';

/** The spans of one run. Without tracing there is none of this: a run passes its options through untouched. */
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
    this.options = Object.freeze({ ...options, backend, audit: tracedTrail(options.audit, calls, context.traceId) });
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

/** Attempts of a run that nothing is above of are in one trace, each with a span of its own. */
function newTrace(tracer: Tracer, run: string): SpanContext {
  const { traceId } = traceOfRun(run);
  return { traceId, spanId: newSpanId(), isSampled: tracer.samples(traceId, null) };
}

/** The same trail, whose lines say which trace they belong to. */
function tracedTrail(audit: AuditSink, calls: CallSpans, trace_id: string): AuditSink {
  const traced = <Event extends AuditEvent>(event: Event): Event => ({ ...event, trace_id });
  return {
    write: (instance, event) => {
      calls.told(event);
      audit.write(instance, traced(event));
    },
    writeRefused: (instance, started, finished) => {
      calls.told(finished);
      writeRefused(audit, instance, traced(started), traced(finished));
    },
    ...(audit.written ? { written: audit.written } : {}),
    ...(audit.showArguments ? { showArguments: audit.showArguments } : {}),
    ...(audit.keepArguments ? { keepArguments: audit.keepArguments } : {}),
  };
}
