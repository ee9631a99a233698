import type { CallHandle, PoolCall } from '../../../src/agent/mcp/client/server-call.ts';
import { convertError } from '../../../src/agent/mcp/client/tool-result.ts';
import { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import { ToolEvents } from '../../../src/agent/mcp/tool-events.ts';
import { RegistryCache } from '../../../src/registry-client/cache.ts';
import { KindCache } from '../../../src/registry-client/kind-cache.ts';
import type { RemoteSource } from '../../../src/registry-client/remote-source.ts';
import { disabledTask } from '../../../src/runtime/port/policy-layers.ts';
import { noAudit } from '../../../src/server/audit/event.ts';
import { stopKind } from '../../../src/server/records/stop-kind.ts';

const READY_MS = 30_000;
const definition = {
  ...{ name: 'work', title: null, description: '', inputSchema: { type: 'object' }, outputSchema: null },
  annotations: null,
};

/** One agent on a node of its own: the real watch, the real cache and the real gate, before a server that answers at once. */
export class StoppedClient {
  readonly namespace: string;
  readonly task: string;
  readonly server: string;
  readonly #cache: RegistryCache;
  readonly #guest: GuestMcp;
  #calls = 0;
  /** Of the last call that passed the gate. */
  sentAt = 0;
  /** How a call ended that was in flight when it was stopped; null: it has not. */
  held: { readonly code: string | null; readonly at: number } | null = null;

  private constructor(source: RemoteSource, namespace: string, task: string, server: string) {
    this.namespace = namespace;
    this.task = task;
    this.server = server;
    const stops = new KindCache({ kind: stopKind, source: source.stops });
    this.#cache = new RegistryCache({ source, stops });
    const policy = {
      ...{ ...disabledTask, enabled: true, namespace, name: task },
      ...{ defaultServerIds: [server], allowedServerIds: [server] },
    };
    const unused = () => Promise.reject(new Error('not part of this test'));
    const pool = {
      startCall: (_: unknown, call: PoolCall) => this.#server(call),
      ...{ describeCall: unused, listTools: unused, listResources: unused, listPrompts: unused },
    };
    const deps = { pool, registry: this.#cache, audit: noAudit, events: new ToolEvents() };
    this.#guest = new GuestMcp(deps, 'run', policy);
  }

  static async open(source: RemoteSource, namespace: string, task: string, server: string): Promise<StoppedClient> {
    const client = new StoppedClient(source, namespace, task, server);
    client.#cache.start();
    if (!(await client.#cache.ready(READY_MS))) throw new Error('a client did not become ready');
    return client;
  }

  /** Revision of the stops that it applies. */
  get revision(): number {
    return this.#cache.stops?.status().revision ?? 0;
  }

  /** Makes one call; null: it was answered, else the code of its error. */
  call(): string | null {
    let code: string | null = 'not answered';
    this.#start('work', (json) => {
      code = codeOf(json);
    });
    return code;
  }

  /** Begins a call that its server does not answer. */
  hold(): void {
    this.held = null;
    this.#start('hold', (json) => {
      this.held = { code: codeOf(json), at: performance.now() };
    });
  }

  async close(): Promise<void> {
    this.#guest.close();
    await this.#cache.close();
  }

  #start(tool: string, take: (json: string) => void): void {
    const call = { serverId: this.server, tool, arguments: '{}', callId: `c${this.#calls++}`, session: 's' };
    this.#guest.start(call, take);
  }

  #server(call: PoolCall): CallHandle {
    try {
      call.beforeDispatch?.({ ...definition, name: call.tool }, {});
    } catch (error) {
      call.finished(convertError(error, Number.MAX_SAFE_INTEGER));
      return { cancel: () => {} };
    }
    this.sentAt = performance.now();
    if (call.tool !== 'hold') call.finished({ json: '{"content":[],"error":null}', error: null });
    return { cancel: (error) => call.finished(convertError(error, Number.MAX_SAFE_INTEGER)) };
  }
}

const codeOf = (json: string) => (JSON.parse(json) as { error: { code: string } | null }).error?.code ?? null;
