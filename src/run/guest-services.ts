import type { ModelCall } from '../agent/chat/tool-loop.ts';
import type { ToolEvents } from '../agent/mcp/tool-events.ts';
import type { JsonValue } from '../base/json.ts';
import type { RunJournal } from '../runtime/durable/run-journal.ts';
import { StdinReader } from '../runtime/host/guest-stdio.ts';
import type { RunResult } from '../runtime/host/run-result.ts';
import { type GuestMessage, type HostReply, PortViolation } from '../runtime/port/port.ts';
import { argumentsFor } from '../server/audit/arguments.ts';
import type { AuditSink } from '../server/audit/event.ts';
import { ChatService } from './chat-service.ts';
import { journaledModel } from './journaled-model.ts';
import { McpService } from './mcp-service.ts';
import { noChat } from './run-ending.ts';
import type { RunningMcp } from './run-mcp.ts';
import type { CompiledRunOptions } from './run-options.ts';
import { StreamHub } from './streams/stream-hub.ts';

/**
 * Host services of one guest: chat, MCP, user streams, stdin. Each is created on its first message, because thousands of
 * guests may wait in a process. Messages come from the guest thread and are untrusted: an invalid one is a PortViolation.
 */
export class GuestServices {
  readonly #options: CompiledRunOptions;
  readonly #journal: RunJournal | null;
  readonly #mcpOfGuest: RunningMcp | null;
  readonly #reply: (call: number, reply: HostReply) => void;
  #chat: ChatService | null = null;
  #mcp: McpService | null = null;
  #streams: StreamHub | null = null;
  #stdin: StdinReader | null = null;
  #isLive = false;
  /** Model requests in flight; counted only with a journal. */
  readonly #asked = { models: 0 };

  constructor(
    options: CompiledRunOptions,
    journal: RunJournal | null,
    mcp: RunningMcp | null,
    reply: (call: number, reply: HostReply) => void,
  ) {
    this.#options = options;
    this.#journal = journal;
    this.#mcpOfGuest = mcp;
    this.#reply = reply;
  }

  get chat(): ChatService {
    this.#chat ??= this.#newChat();
    return this.#chat;
  }

  get streams(): StreamHub {
    this.#streams ??= this.#newStreams();
    return this.#streams;
  }

  /** Replay has ended, or there is no journal: clients may connect. */
  goLive(): void {
    this.#isLive = true;
    this.#streams?.goLive();
    this.#options.streams?.attach(this.streams);
  }

  /** Rejects new clients: they wait for the resumed run. */
  endStreams(): void {
    if (this.#streams !== null) this.#streams.isOver = true;
  }

  get totals(): RunResult['chat'] {
    return this.#chat?.totals ?? noChat();
  }

  /** Model requests, MCP calls and clients that prevent parking. */
  get underway(): number {
    return this.#asked.models + (this.#mcpOfGuest?.underway ?? 0) + Number(this.#streams?.isTaken ?? false);
  }

  /** Pauses the deadline of the session's send. Returns a function that resumes it. */
  pause(session: string): () => void {
    return this.#chat?.pause(session) ?? (() => {});
  }

  receive(message: GuestMessage): void {
    const call = message[1];
    switch (message[3]) {
      case 'send':
        this.chat.send(call, message[4], message[5], message[6]);
        return;
      case 'cancel':
        this.#mcp?.cancel(call);
        this.#chat?.cancel(call);
        return;
      case 'read':
        this.#chat?.read(call, message[4]);
        return;
      case 'tool_result':
        this.#chat?.toolResult(call, message[4], message[5], message[6]);
        return;
      case 'close_session':
        this.chat.closeSession(call, message[4]);
        return;
      case 'stdin':
        this.#stdin ??= new StdinReader(this.#options.stdin);
        this.#stdin.read(message[4]).then((chunk) => this.#reply(call, ['stdin', chunk]));
        return;
      case 'mcp_open':
      case 'mcp_list':
      case 'mcp_list_resources':
      case 'mcp_list_prompts':
      case 'mcp_call':
      case 'mcp_read_resource':
      case 'mcp_get_prompt':
      case 'mcp_registry':
        this.#mcp ??= new McpService(this.#mcpOfGuest, this.#reply);
        this.#mcp.receive(message);
        return;
      case 'stream_open':
      case 'stream_watch':
      case 'stream_frame':
      case 'stream_taken':
      case 'stream_close':
        this.streams.receive(message);
        return;
      default:
        throw new PortViolation(`unknown guest request ${message[3]}`);
    }
  }

  /** Ends everything that still runs for the guest. */
  async close(): Promise<void> {
    this.#stdin?.close();
    await this.#streams?.close();
    await this.#mcp?.close();
    await this.#chat?.close();
  }

  #newStreams(): StreamHub {
    const recorded = this.#journal?.recorded ?? null;
    const streams = new StreamHub(this.#reply, recorded && ((call) => recorded.replies(call)));
    if (this.#isLive) streams.goLive();
    return streams;
  }

  #newChat(): ChatService {
    const { backend, onModelEvent, onNotice, run, audit, events } = this.#options;
    const journal = this.#journal;
    const native = new NativeTools(run, audit, events);
    const revision = () => this.#mcpOfGuest?.revision ?? null;
    return new ChatService({
      backend: journal === null ? backend : journaledModel(backend, journal, revision, this.#asked),
      observe: (session) => ({
        ...native.observe(session),
        failed: (error) => onNotice(`internal error in a chat send: ${error instanceof Error ? error.stack : error}`),
      }),
      tools: this.#mcpOfGuest,
      onModelEvent,
      reply: this.#reply,
      settled: journal === null ? null : (call, send) => journal.settled(call, send),
      takesEarlyAnswers: journal?.recorded != null,
    });
  }
}

interface NativeCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  readonly result: string | undefined;
}

/** Audit events of a send: guest tools, model calls, exceeded budgets. */
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

/** The value comes from the provider and may be anything. */
const tokens = (count: JsonValue | undefined): number | null =>
  Number.isSafeInteger(count) && Number(count) >= 0 ? Number(count) : null;
