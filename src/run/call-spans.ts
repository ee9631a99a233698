import type { CallTrace, TracedCall } from '../agent/mcp/guest-scope.ts';
import type { AuditEvent, CallFinished, CallStarted } from '../server/audit/event.ts';
import { type Attributes, nowMs, type Span, type Tracer } from '../server/telemetry/span.ts';
import { type SpanContext, traceparentOf } from '../server/telemetry/trace-context.ts';

type Kind = 'tool' | 'resource' | 'prompt';
type Asked = Extract<AuditEvent, { event: 'approval.asked' | 'elicitation.asked' }>;
type Answered = Extract<AuditEvent, { event: 'approval.decided' | 'elicitation.answered' }>;

/** What a call was waiting for is a span of its own from here on. */
const SHORTEST_WAIT_MS = 1;
/** Calls of a run that are under way, far more than its limits let it have. What is beyond is not followed. */
const MAX_OPEN = 4_096;

const methods: Readonly<Record<Kind, string>> = {
  tool: 'tools/call',
  resource: 'resources/read',
  prompt: 'prompts/get',
};

interface OpenCall {
  readonly span: Span;
  readonly serverId: string | null;
  /** Since when nothing but a place at its server is in the way of it; null: it was sent. */
  waitsSinceMs: number | null;
  /** Somebody is asked because of it. */
  question: Span | null;
}

/** The spans of a run's tool calls and of what they wait for, made of what its trail is told. */
export class CallSpans implements CallTrace {
  readonly #tracer: Tracer;
  readonly #parent: SpanContext;
  /** By session and call; models may give two calls one id, so the last one counts. */
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

  told(event: AuditEvent): void {
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
    // Nobody vouches for a name that belongs to no server and to no tool of the guest.
    const tool = serverId === null && event.source === 'mcp' && event.status === 'denied' ? null : event.tool_name;
    const startMs = nowMs() - event.duration_ms;
    const span = call?.span ?? this.#begin(kind, { serverId, tool, callId }, startMs);
    span.set({ 'spear.tool.output_bytes': event.output_bytes });
    call?.question?.end('cancelled');
    span.end(event.status === 'ok' ? null : (event.reason ?? event.status));
  }

  #asked(event: Asked): void {
    const call = this.#last(event);
    const isApproval = event.event === 'approval.asked';
    const attributes: Attributes = {
      'spear.mcp.server': event.server_id ?? '',
      ...(isApproval ? { 'spear.approval.reason': event.reason } : { 'spear.elicitation.mode': event.mode }),
    };
    const name = isApproval ? 'approval' : 'elicitation';
    const span = this.#tracer.begin({ name, parent: call?.span.context ?? this.#parent, attributes });
    if (call === undefined) return; // nothing says later which question was answered
    call.question?.end('cancelled');
    call.question = span;
  }

  #answered(event: Answered): void {
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
    const named = tool !== null && kind !== 'resource'; // the address of a resource may say anything
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

  #last({ session_id: session, request_id: call }: Called): OpenCall | undefined {
    return this.#open.get(keyOf(session, call))?.at(-1);
  }

  #take({ session_id: session, request_id: call }: Called): OpenCall | undefined {
    const key = keyOf(session, call);
    const calls = this.#open.get(key);
    const taken = calls?.pop();
    if (taken !== undefined) this.#count -= 1;
    if (calls?.length === 0) this.#open.delete(key);
    return taken;
  }
}

type Called = Pick<CallFinished, 'session_id' | 'request_id'>;

const keyOf = (session: string | null, call: string): string => `${session}\0${call}`;
