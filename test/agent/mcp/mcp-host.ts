import { expect, onTestFinished } from 'vitest';
import type { InjectedTools, InjectionRequest } from '../../../src/agent/chat/injected-tools.ts';
import type { McpPool } from '../../../src/agent/mcp/client/pool.ts';
import type { PoolLogEntry } from '../../../src/agent/mcp/client/pool-options.ts';
import { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import type { ServerTroubleListener } from '../../../src/agent/mcp/server-troubles.ts';
import { ToolEvents, type ToolInvocation } from '../../../src/agent/mcp/tool-events.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import { RegistryCache } from '../../../src/registry-client/cache.ts';
import { KindCache } from '../../../src/registry-client/kind-cache.ts';
import { inProcessSource } from '../../../src/registry-client/source.ts';
import type { TaskPolicy } from '../../../src/runtime/port/policy-layers.ts';
import type { AuditEvent } from '../../../src/server/audit/event.ts';
import { type McpProfile, profileKind } from '../../../src/server/records/profile.ts';
import type { StoreStamps } from '../../../src/server/records/record-kind.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import type { StopRecord } from '../../../src/server/records/stop.ts';
import { stopKind } from '../../../src/server/records/stop-kind.ts';
import { createMemoryStore, createMemoryStoreOf } from '../../../src/server/store/local-store.ts';
import type { RegistryStore } from '../../../src/server/store/store.ts';
import type { McpSide } from '../../support/chat-host.ts';
import { taskWith } from '../policy/policy-samples.ts';
import { openPool, type PoolSample } from './client/pool-samples.ts';

type Told<Event extends AuditEvent['event']> = Extract<AuditEvent, { event: Event }> & { readonly run: string };

/** A host with MCP: the real registry, policy, bridge and pool. Everything that it tells is kept. */
export class McpHost {
  readonly pool: McpPool;
  readonly log: readonly PoolLogEntry[];
  readonly registry: RegistryCache;
  readonly events = new ToolEvents();
  readonly invocations: ToolInvocation[] = [];
  readonly trail: (AuditEvent & { readonly run: string })[] = [];
  readonly audit = { write: (run: string, event: AuditEvent) => void this.trail.push({ run, ...event }) };
  readonly #store: RegistryStore;
  readonly #profiles: RegistryStore<McpProfile>;
  readonly #stops: RegistryStore<StopRecord>;

  constructor(pool: McpPool, log: readonly PoolLogEntry[], stores: HostStores, registry: RegistryCache) {
    this.pool = pool;
    this.log = log;
    this.#store = stores.servers;
    this.#profiles = stores.profiles;
    this.#stops = stores.stops;
    this.registry = registry;
    this.events.subscribe((invocation) => this.invocations.push(invocation));
  }

  /** MCP for one guest. @default all servers of the registry */
  guest(task: Partial<TaskPolicy> = {}, run = 'run-1', troubles: ServerTroubleListener = {}): GuestMcp {
    const defaultServerIds = [...(this.registry.snapshot()?.records.keys() ?? [])];
    const { pool, registry, audit, events } = this;
    return new GuestMcp({ pool, registry, audit, events, troubles }, run, taskWith({ defaultServerIds, ...task }));
  }

  /** The same for a test guest, which tells of its own tools in the same places. */
  side(task: Partial<TaskPolicy> = {}, run = 'test'): McpSide {
    return { guest: this.guest(task, run), audit: this.audit, events: this.events };
  }

  /** Changes a record and waits until the node knows. */
  async upsert(record: McpServerRecord): Promise<void> {
    await known(this.registry, async () => (await this.#store.upsert(record)).revision);
  }

  async remove(serverId: string): Promise<void> {
    await known(this.registry, () => this.#store.remove(serverId));
  }

  /** The same for a profile. */
  async upsertProfile(profile: McpProfile): Promise<void> {
    await known(this.registry.profiles, async () => (await this.#profiles.upsert(profile)).revision);
  }

  async removeProfile(name: string): Promise<void> {
    await known(this.registry.profiles, () => this.#profiles.remove(name));
  }

  /** Stops something and waits until the node knows. */
  async stop(stop: StopRecord): Promise<void> {
    await known(this.registry.stops, async () => (await this.#stops.upsert(stop)).revision);
  }

  told<Event extends AuditEvent['event']>(event: Event): Told<Event>[] {
    return this.trail.filter((line): line is Told<Event> => line.event === event);
  }

  async close(): Promise<void> {
    await this.pool.close();
    await this.registry.close();
    await this.#store.close();
    await this.#profiles.close();
    await this.#stops.close();
  }
}

interface HostStores {
  readonly servers: RegistryStore;
  readonly profiles: RegistryStore<McpProfile>;
  readonly stops: RegistryStore<StopRecord>;
}

async function known<R extends StoreStamps>(cache: KindCache<R> | null, write: () => Promise<number>): Promise<void> {
  const seen = Promise.withResolvers<void>();
  let wanted = Number.POSITIVE_INFINITY;
  const look = () => {
    if ((cache?.snapshot()?.revision ?? -1) >= wanted) seen.resolve();
  };
  const stop = cache?.onChange(look);
  wanted = await write();
  look();
  await seen.promise;
  stop?.();
}

/** Closed at the end of the test, after everything that the test opened on it. */
export async function openHost(records: readonly McpServerRecord[], sample: PoolSample = {}): Promise<McpHost> {
  const { pool, log } = openPool(sample);
  const store = createMemoryStore();
  for (const record of records) await store.upsert(record);
  const profileStore = createMemoryStoreOf(profileKind);
  const profiles = new KindCache({ kind: profileKind, source: inProcessSource(profileStore) });
  const stopStore = createMemoryStoreOf(stopKind);
  const stops = new KindCache({ kind: stopKind, source: inProcessSource(stopStore) });
  const registry = new RegistryCache({ source: inProcessSource(store), profiles, stops });
  registry.onChange((change) => pool.applyChange(change));
  registry.start();
  expect(await registry.ready(10_000)).toBe(true);
  expect(await profiles.ready(10_000)).toBe(true);
  const host = new McpHost(pool, log, { servers: store, profiles: profileStore, stops: stopStore }, registry);
  onTestFinished(() => host.close());
  return host;
}

export const never = new AbortController().signal;

/** What a send would get. */
export function inject(
  guest: GuestMcp,
  request: Partial<InjectionRequest> & { readonly signal?: AbortSignal } = {},
): Promise<InjectedTools> {
  const { signal = never, ...about } = request;
  const defaults = { session: 'chat-1', params: [], guestTools: new Set<string>(), maxOutputBytes: 65_536 };
  return guest.inject({ ...defaults, ...about }, signal);
}

export function namesOf(tools: InjectedTools): string[] {
  return tools.definitions.map((definition) => String((definition.function as JsonObject).name));
}

interface Answer {
  readonly content?: readonly { readonly type: string; readonly text?: string }[];
  readonly structuredContent?: unknown;
  readonly error?: { readonly code: string; readonly message: string; readonly retryable: boolean };
}

let calls = 0;

/** A call as the model makes it, and its answer. */
export async function callOf(
  tools: InjectedTools,
  name: string,
  args: unknown = {},
  signal: AbortSignal = never,
): Promise<Answer> {
  const text = typeof args === 'string' ? args : JSON.stringify(args);
  const [json = ''] = await tools.run([{ id: `call_${++calls}`, name, arguments: text }], signal);
  return JSON.parse(json) as Answer;
}

export async function textOf(tools: InjectedTools, name: string, args: unknown = {}): Promise<string> {
  const answer = await callOf(tools, name, args);
  if (answer.error) throw new Error(`${name} failed: ${JSON.stringify(answer)}`);
  return answer.content?.[0]?.text ?? '';
}
