import { agentAttributes } from '../run/run-trace.ts';
import type { Claim, RunEnding } from '../server/queue/run-queue.ts';
import type { RunRecord } from '../server/records/run.ts';
import { taskId } from '../server/records/task.ts';
import type { RunTracing, Tracer } from '../server/telemetry/span.ts';
import { parseTraceparent, type SpanContext, traceOfRun } from '../server/telemetry/trace-context.ts';

/**
 * Spans of runs, from submission to end. The id of the root span is derived from the id of the run, so that attempts on
 * any node and after any crash have the same parent.
 */
export class RunTraces {
  readonly #tracer: Tracer;

  constructor(tracer: Tracer) {
    this.#tracer = tracer;
  }

  /** Tracing of one attempt. The first attempt also emits the span of the wait in the queue. */
  attempt({ run, attempt }: Claim): RunTracing {
    const parent = this.#root(run);
    if (attempt === 1) {
      const attributes = { 'spear.run.id': run.id, 'spear.pool': run.pool };
      this.#tracer.begin({ name: 'wait in queue', parent, startMs: run.submitted_at_ms, attributes }).end();
    }
    return {
      tracer: this.#tracer,
      parent,
      agent: taskId({ namespace: run.namespace, name: run.task }),
      name: `attempt ${attempt}`,
    };
  }

  ended({ run, attempt }: Claim, { status, exit, cost }: RunEnding): void {
    const above = parseTraceparent(run.traceparent);
    const whole = this.#root(run);
    const agent = taskId({ namespace: run.namespace, name: run.task });
    const span = this.#tracer.begin({
      name: `invoke_agent ${agent}`,
      parent: above === null || above.spanId === whole.spanId ? null : above,
      context: whole,
      startMs: run.submitted_at_ms,
      attributes: {
        ...agentAttributes(agent),
        'gen_ai.agent.version': String(run.revision),
        'spear.run.id': run.id,
        'spear.run.status': status,
        'spear.run.attempts': attempt,
        'spear.namespace': run.namespace,
        ...(cost === null ? {} : { 'spear.model_calls': cost.model_calls, 'spear.tool_calls': cost.tool_calls }),
      },
    });
    span.end(status === 'succeeded' ? null : status === 'failed' ? exit.reason : status);
  }

  #root({ id, traceparent }: RunRecord): SpanContext {
    const own = traceOfRun(id);
    const kept = parseTraceparent(traceparent);
    if (kept === null) return { ...own, isSampled: this.#tracer.samples(own.traceId, null) };
    return { traceId: kept.traceId, spanId: own.spanId, isSampled: kept.isSampled };
  }
}
