import type { MessagePort } from 'node:worker_threads';
import type { AskedBy, ChatBackend, ChatRequest } from '../../src/agent/chat/backend.ts';
import type { ScriptTurn } from '../../src/agent/chat/backends/script-schema.ts';
import { openScriptedBackend } from '../../src/agent/chat/backends/scripted.ts';
import type { GuestMcp } from '../../src/agent/mcp/guest-mcp.ts';
import { ToolEvents } from '../../src/agent/mcp/tool-events.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { ChatService } from '../../src/run/chat-service.ts';
import { NativeTools } from '../../src/run/guest-services.ts';
import { McpService } from '../../src/run/mcp-service.ts';
import { StreamHub } from '../../src/run/streams/stream-hub.ts';
import { GuestPort } from '../../src/runtime/host/guest-port.ts';
import type { GuestMessage, HostReply } from '../../src/runtime/port/port.ts';
import { type AuditSink, noAudit } from '../../src/server/audit/event.ts';

/** Notes every request on its way to a real backend, and can hold the answers back. */
export class ObservedBackend implements ChatBackend {
  readonly requests: ChatRequest[] = [];
  /** Who made each of them. */
  readonly askedBy: (AskedBy | undefined)[] = [];
  /** Requests whose signal was aborted before they were answered. */
  aborted = 0;
  readonly #inner: ChatBackend;
  #gate: Promise<void> = Promise.resolve();

  constructor(inner: ChatBackend) {
    this.#inner = inner;
  }

  get name(): string {
    return this.#inner.name;
  }

  get model(): string | undefined {
    return this.#inner.model;
  }

  /** No request is answered until the returned function is called. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#gate = promise;
    return resolve;
  }

  async complete(request: ChatRequest, signal: AbortSignal, by?: AskedBy): Promise<JsonObject> {
    this.requests.push(structuredClone(request));
    this.askedBy.push(by);
    if (signal.aborted) this.aborted++;
    signal.throwIfAborted();
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const onAbort = () => {
      this.aborted++;
      reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await Promise.race([this.#gate, aborted]);
      return await this.#inner.complete(request, signal, by);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}

/** The real scripted backend, over turns that need no file. */
export async function scripted(turns: readonly ScriptTurn[]): Promise<ObservedBackend> {
  const text = JSON.stringify({ turns });
  return new ObservedBackend(await openScriptedBackend('scripted', 'script.json', () => text));
}

/** MCP as a host has it for one guest, and where the host tells what happens. */
export interface McpSide {
  readonly guest: GuestMcp;
  readonly audit: AuditSink;
  readonly events: ToolEvents;
}

/** The host's end of the port: the real services behind it. Without `side` it is a host without MCP. */
export function serveGuest(
  port: MessagePort,
  backend: ChatBackend,
  side: McpSide | null,
): { chat: ChatService; mcp: McpService; streams: StreamHub } {
  const native = new NativeTools('test', side?.audit ?? noAudit, side?.events ?? new ToolEvents());
  const host = new GuestPort(port);
  const reply = (call: number, message: HostReply) => host.post(0, call, message);
  const chat = new ChatService({
    backend: async () => backend,
    tools: side?.guest ?? null,
    observe: (session) => ({
      ...native.observe(session),
      failed: (error) => {
        throw error;
      },
    }),
    onModelEvent: null,
    reply,
  });
  const mcp = new McpService(side?.guest ?? null, reply);
  const streams = new StreamHub(reply);
  const violated = (why: string) => {
    throw new Error(why);
  };
  const receive = (message: GuestMessage) => {
    const call = message[1];
    if (message[3] === 'send') chat.send(call, message[4], message[5], message[6]);
    else if (message[3] === 'cancel') {
      mcp.cancel(call);
      chat.cancel(call);
    } else if (message[3] === 'read') chat.read(call, message[4]);
    else if (message[3] === 'tool_result') chat.toolResult(call, message[4], message[5], message[6]);
    else if (message[3] === 'close_session') chat.closeSession(call, message[4]);
    else if (message[3].startsWith('stream_')) streams.receive(message);
    else mcp.receive(message);
  };
  host.listen({ receive, recordEvents: null, violated });
  return { chat, mcp, streams };
}
