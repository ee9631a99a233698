import { agentAttributes } from '../run/run-trace.ts';
import type { Claim, RunEnding } from '../server/queue/run-queue.ts';
import type { RunRecord } from '../server/records/run.ts';
import { taskId } from '../server/records/task.ts';
import type { RunTracing, Tracer } from '../server/telemetry/span.ts';
import { parseTraceparent, type SpanContext, traceOfRun } from '../server/telemetry/trace-context.ts';

/**
 * The spans of runs, from their submission to their end. The one that is all of a run has an id that anybody can tell
 * from the run's, so that attempts, on whichever node and after whatever crash, are below the same one.
 */
export class RunTraces {
  readonly #tracer: Tracer;

  constructor(tracer: Tracer) {
    this.#tracer = tracer;
  }

  /** For an attempt at it. What it waited before its first is told now. */
  attempt({ run, attempt }: Claim): RunTracing {
    const parent = this.#whole(run);
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
    const whole = this.#whole(run);
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

  #whole({ id, traceparent }: RunRecord): SpanContext {
    const own = traceOfRun(id);
    const kept = parseTraceparent(traceparent);
    if (kept === null) return { ...own, isSampled: this.#tracer.samples(own.traceId, null) };
    return { traceId: kept.traceId, spanId: own.spanId, isSampled: kept.isSampled };
  }
}
