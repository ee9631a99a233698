import type { ErrnoName } from '../abi/errno.ts';
import { canonicalJson, type JsonObject } from '../base/json.ts';
import type { GuestMcp } from '../mcp/guest-mcp.ts';
import { type GuestMessage, type HostReply, PortViolation } from '../protocol/port.ts';

type Reply = (call: number, reply: HostReply, transfer: ArrayBuffer[]) => void;

/** JSON for the guest, or the errno that its call returns. */
type Answer = JsonObject | { readonly json: string; readonly metrics: JsonObject } | ErrnoName;

const encoder = new TextEncoder();

/** The `mcp_*` hostcalls of one guest, on the host thread. Without MCP every question is refused. */
export class McpService {
  readonly #mcp: GuestMcp | null;
  readonly #reply: Reply;
  readonly #running = new Map<number, { controller: AbortController; done: Promise<void> }>();

  constructor(mcp: GuestMcp | null, reply: Reply) {
    this.#mcp = mcp;
    this.#reply = reply;
  }

  receive(message: GuestMessage): void {
    const call = message[1];
    if (this.#running.has(call)) throw new PortViolation('a call id was used twice');
    const known = this.#mcp ? answerAtOnce(this.#mcp, message) : 'EACCES';
    if (known !== null) {
      this.#send(call, known);
      return;
    }
    const controller = new AbortController();
    const work = answer(this.#mcp as GuestMcp, message, controller.signal);
    const done = work.then((found) => {
      this.#running.delete(call);
      this.#send(call, found);
    });
    this.#running.set(call, { controller, done });
  }

  cancel(call: number): void {
    this.#running.get(call)?.controller.abort(new DOMException('cancelled by the guest', 'AbortError'));
  }

  /** Cancels what still runs, at the servers too, and waits until they have been told. */
  async close(): Promise<void> {
    const running = [...this.#running.values()];
    for (const { controller } of running) controller.abort(new DOMException('the guest ended', 'AbortError'));
    await Promise.all(running.map(({ done }) => done));
  }

  #send(call: number, found: Answer): void {
    if (typeof found === 'string') {
      this.#reply(call, ['done', found, null, '{}'], []);
      return;
    }
    const result = 'json' in found ? (found as { json: string; metrics: JsonObject }) : null;
    const body = encoder.encode(result?.json ?? canonicalJson(found as JsonObject)).buffer;
    this.#reply(call, ['done', null, body, canonicalJson(result?.metrics ?? {})], [body]);
  }
}

/** What the node knows without asking a server; null for everything else. */
function answerAtOnce(mcp: GuestMcp, message: GuestMessage): Answer | null {
  if (message[3] === 'mcp_open') return mcp.open(message[4]) ?? {};
  if (message[3] !== 'mcp_registry') return null;
  return message[4] === null ? mcp.registryList() : mcp.registryGet(message[4]);
}

async function answer(mcp: GuestMcp, message: GuestMessage, signal: AbortSignal): Promise<Answer> {
  switch (message[3]) {
    case 'mcp_list':
      return mcp.listTools(message[4], signal);
    case 'mcp_call': {
      const [, call, , , session, serverId, tool, args] = message;
      const started = performance.now();
      const about = { serverId, tool, arguments: args, callId: `call-${call}`, session: `mcp-${session}` };
      const json = await mcp.call(about, signal);
      const metrics = { duration_ms: Math.round(performance.now() - started), result_bytes: Buffer.byteLength(json) };
      return { json, metrics };
    }
    default:
      throw new PortViolation(`${message[3]} is not an MCP call`);
  }
}
