import type { ModelCall } from '../agent/chat/tool-loop.ts';
import type { ToolEvents } from '../agent/mcp/tool-events.ts';
import type { JsonValue } from '../base/json.ts';
import type { AuditSink } from '../server/audit/event.ts';
import { argumentsFor } from '../server/audit/kept-arguments.ts';

interface NativeCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  readonly result: string | undefined;
}

/** The trail of a send: tools that run inside the guest, models that were asked, limits that it ran into. */
export class NativeTools {
  readonly #run: string;
  readonly #audit: AuditSink;
  readonly #events: ToolEvents;

  constructor(run: string, audit: AuditSink, events: ToolEvents) {
    this.#run = run;
    this.#audit = audit;
    this.#events = events;
  }

  observe(session: string) {
    return {
      toolStarted: (call: NativeCall) => {
        this.#audit.write(this.#run, {
          event: 'tool_call.started',
          session_id: session,
          request_id: call.id,
          source: 'native',
          server_id: null,
          tool_name: call.name,
          args: argumentsFor(this.#audit, call.arguments),
        });
      },
      toolFinished: (call: NativeCall, outcome: string, durationMs: number) => {
        const bytes = Buffer.byteLength(call.result ?? '');
        this.#audit.write(this.#run, {
          event: 'tool_call.finished',
          session_id: session,
          request_id: call.id,
          source: 'native',
          server_id: null,
          tool_name: call.name,
          status: outcome === 'ok' ? 'ok' : 'failed',
          reason: outcome === 'ok' ? null : outcome,
          duration_ms: Math.round(durationMs),
          output_bytes: bytes,
          revision: null,
        });
        const { id: callId, name: tool } = call;
        this.#events.emit({
          source: 'native',
          kind: 'tool',
          run: this.#run,
          session,
          server: null,
          tool,
          callId,
          outcome,
          durationMs,
          bytes,
        });
      },
      modelAnswered: ({ backend, model, outcome, durationMs, usage }: ModelCall) => {
        this.#audit.write(this.#run, {
          event: 'model_call.finished',
          session_id: session,
          backend,
          model: model ?? null,
          status: outcome === 'ok' || outcome === 'cancelled' ? outcome : 'failed',
          reason: outcome === 'ok' || outcome === 'cancelled' ? null : outcome,
          duration_ms: Math.round(durationMs),
          input_tokens: tokens(usage?.prompt_tokens),
          output_tokens: tokens(usage?.completion_tokens),
        });
      },
      limitReached: (budget: string) => {
        this.#audit.write(this.#run, {
          event: 'budget.hit',
          session_id: session,
          server_id: null,
          tool_name: null,
          budget,
        });
      },
    };
  }
}

/** Providers write what they like. */
const tokens = (count: JsonValue | undefined): number | null =>
  Number.isSafeInteger(count) && Number(count) >= 0 ? Number(count) : null;
