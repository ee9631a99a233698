import type { AuditTrail } from '../audit/event.ts';
import { redactArguments } from '../audit/redact-arguments.ts';
import { parseJson } from '../base/json.ts';
import type { ToolEvents } from '../mcp/tool-events.ts';

interface NativeCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  readonly result: string | undefined;
}

/** The trail of tools that run inside the guest, and of limits that a send ran into. */
export class NativeTools {
  readonly #run: string;
  readonly #audit: AuditTrail;
  readonly #events: ToolEvents;

  constructor(run: string, audit: AuditTrail, events: ToolEvents) {
    this.#run = run;
    this.#audit = audit;
    this.#events = events;
  }

  observe(session: string) {
    const showArguments = this.#audit.showArguments ?? redactArguments;
    const about = (call: NativeCall) =>
      ({
        session_id: session,
        request_id: call.id,
        source: 'native',
        server_id: null,
        tool_name: call.name,
      }) as const;
    return {
      toolStarted: (call: NativeCall) => {
        this.#audit.write(this.#run, {
          event: 'tool_call.started',
          ...about(call),
          args: showArguments(parseJson(call.arguments)),
        });
      },
      toolFinished: (call: NativeCall, outcome: string, durationMs: number) => {
        const bytes = Buffer.byteLength(call.result ?? '');
        this.#audit.write(this.#run, {
          event: 'tool_call.finished',
          ...about(call),
          status: outcome === 'ok' ? 'ok' : 'failed',
          reason: outcome === 'ok' ? null : outcome,
          duration_ms: Math.round(durationMs),
          output_bytes: bytes,
          revision: null,
        });
        const { id: callId, name: tool } = call;
        this.#events.emit({
          source: 'native',
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
