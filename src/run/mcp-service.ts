import { canonicalJson, type JsonObject } from '../base/json.ts';
import type { ErrnoName } from '../runtime/abi/errno.ts';
import type { CallKind } from '../runtime/port/policy-layers.ts';
import { type GuestMessage, type HostReply, PortViolation } from '../runtime/port/port.ts';
import type { RunningMcp } from './run-mcp.ts';

type Reply = (call: number, reply: HostReply) => void;

/** JSON for the guest, or the errno that its call returns. */
type Answer = JsonObject | ErrnoName;

type AskMessage = Extract<GuestMessage, { 3: 'mcp_call' | 'mcp_read_resource' | 'mcp_get_prompt' }>;

const askedKinds: Readonly<Record<AskMessage[3], CallKind>> = {
  mcp_call: 'tool',
  mcp_read_resource: 'resource',
  mcp_get_prompt: 'prompt',
};

const notStarted: RunningQuestion = { cancel: () => {} };

interface RunningQuestion {
  cancel(reason: unknown): void;
}

/**
 * The `mcp_*` hostcalls of one guest, on the host thread. Without MCP every request fails with EACCES. Requests of a guest
 * run concurrently; closing cancels them, and waits until the servers were notified.
 */
export class McpService {
  readonly #mcp: RunningMcp | null;
  readonly #reply: Reply;
  readonly #running = new Map<number, RunningQuestion>();
  #onceIdle: (() => void) | null = null;

  constructor(mcp: RunningMcp | null, reply: Reply) {
    this.#mcp = mcp;
    this.#reply = reply;
  }

  receive(message: GuestMessage): void {
    const call = message[1];
    if (this.#running.has(call)) throw new PortViolation('duplicate call id');
    const known = this.#mcp ? answerAtOnce(this.#mcp, message) : 'EACCES';
    if (known !== null) this.#send(call, known);
    else this.#ask(this.#mcp as RunningMcp, call, message);
  }

  cancel(call: number): void {
    this.#running.get(call)?.cancel(new DOMException('cancelled by the guest', 'AbortError'));
  }

  /** Cancels all requests, and waits until the servers were notified. */
  async close(): Promise<void> {
    for (const running of [...this.#running.values()])
      running.cancel(new DOMException('the guest ended', 'AbortError'));
    if (this.#running.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#onceIdle = resolve;
    });
  }

  #ask(mcp: RunningMcp, call: number, message: GuestMessage): void {
    switch (message[3]) {
      case 'mcp_list':
        this.#list(call, (signal) => mcp.listTools(message[4], signal));
        return;
      case 'mcp_list_resources':
        this.#list(call, (signal) => mcp.listResources(message[4], signal));
        return;
      case 'mcp_list_prompts':
        this.#list(call, (signal) => mcp.listPrompts(message[4], signal));
        return;
      case 'mcp_call':
      case 'mcp_read_resource':
      case 'mcp_get_prompt': {
        this.#running.set(call, notStarted);
        const running = this.#start(mcp, call, message);
        // The call may have ended synchronously.
        if (this.#running.has(call)) this.#running.set(call, running);
        return;
      }
      default:
        throw new PortViolation(`${message[3]} is not an MCP request`);
    }
  }

  #list(call: number, ask: (signal: AbortSignal) => Promise<JsonObject | ErrnoName>): void {
    const controller = new AbortController();
    this.#running.set(call, { cancel: (reason) => controller.abort(reason) });
    void ask(controller.signal).then((found) => this.#answered(call, found));
  }

  #start(mcp: RunningMcp, call: number, message: AskMessage): RunningQuestion {
    const [, , , op, session, serverId, tool, args] = message;
    const started = performance.now();
    const about = {
      kind: askedKinds[op],
      serverId,
      tool,
      arguments: args,
      callId: `call-${call}`,
      session: `mcp-${session}`,
      ordinal: String(call),
    };
    return mcp.start(about, (json) => {
      const tookMs = Math.round(performance.now() - started);
      const metrics = `{"duration_ms":${tookMs},"result_bytes":${Buffer.byteLength(json)}}`;
      this.#running.delete(call);
      this.#reply(call, ['done', null, json, metrics]);
      this.#tellIdle();
    });
  }

  #answered(call: number, found: Answer): void {
    this.#running.delete(call);
    this.#send(call, found);
    this.#tellIdle();
  }

  #tellIdle(): void {
    if (this.#running.size === 0) this.#onceIdle?.();
  }

  #send(call: number, found: Answer): void {
    if (typeof found === 'string') this.#reply(call, ['done', found, null, '{}']);
    else this.#reply(call, ['done', null, canonicalJson(found), '{}']);
  }
}

/** A request for lists or servers, for the journal; null: another message, or a call, which has its own records. */
export function questionOf(message: GuestMessage): readonly (string | null)[] | null {
  switch (message[3]) {
    case 'mcp_open':
    case 'mcp_list':
    case 'mcp_list_resources':
    case 'mcp_list_prompts':
    case 'mcp_registry':
      return [message[3], message[4]];
    default:
      return null;
  }
}

/** Responses that need no server; null: all other requests. */
function answerAtOnce(mcp: RunningMcp, message: GuestMessage): Answer | null {
  if (message[3] === 'mcp_open') return mcp.open(message[4]) ?? {};
  if (message[3] !== 'mcp_registry') return null;
  return message[4] === null ? mcp.registryList() : mcp.registryGet(message[4]);
}
