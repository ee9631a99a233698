import type { Meter } from '@opentelemetry/api';
import type { McpLabels } from './labels.ts';

export interface PoolFacts {
  readonly connected: number;
  readonly subprocesses: number;
  readonly queued: number;
  readonly running: number;
  readonly servers: readonly {
    readonly serverId: string;
    readonly connected: boolean;
    readonly reconnects: number;
  }[];
}

export interface RegistryFacts {
  readonly revision: number | null;
  readonly ageMs: number | null;
  readonly servers: number;
  readonly degraded: boolean;
}

/** Pools as they stand when somebody asks; several add up. Returns the way to add one, which returns the way to stop. */
export function poolGauges(meter: Meter, labels: McpLabels): (read: () => PoolFacts) => () => void {
  const gauge = (name: string, description: string) => meter.createObservableGauge(name, { description });
  const sums = {
    connected: gauge('mcp_pool_connected', 'Open connections to MCP servers.'),
    subprocesses: gauge('mcp_pool_subprocesses', 'Running processes of stdio servers.'),
    queued: gauge('mcp_pool_queued', 'Calls waiting in a queue for a slot.'),
    running: gauge('mcp_pool_running', 'Calls in flight at MCP servers.'),
  } as const;
  const up = gauge('mcp_server_connected', '1 if the server is connected, otherwise 0.');
  const reconnects = meter.createObservableCounter('mcp_server_reconnect_total', {
    description: 'Reconnects after a lost connection.',
  });
  const readers = new Readers<PoolFacts>();
  meter.addBatchObservableCallback(
    (result) => {
      const pools = readers.read();
      for (const [name, instrument] of Object.entries(sums)) {
        const sum = pools.reduce((total, pool) => total + pool[name as keyof typeof sums], 0);
        if (readers.used) result.observe(instrument, sum);
      }
      for (const server of pools.flatMap(({ servers }) => servers)) {
        const label = { server_id: labels.server(server.serverId) };
        if (label.server_id !== server.serverId) continue; // one gauge cannot stand for several servers
        result.observe(up, server.connected ? 1 : 0, label);
        result.observe(reconnects, server.reconnects, label);
      }
    },
    [...Object.values(sums), up, reconnects],
  );
  return (read) => readers.add(read);
}

/** The registry that this node follows, as it stands when somebody asks. */
export function registryGauges(meter: Meter): (read: () => RegistryFacts) => () => void {
  const gauge = (name: string, description: string) => meter.createObservableGauge(name, { description });
  const revision = gauge('mcp_registry_revision', 'Revision of the registry snapshot that this node uses.');
  const age = gauge(
    'mcp_registry_age_seconds',
    'Age of the registry snapshot: time since the registry last confirmed its revision.',
  );
  const servers = gauge('mcp_registry_servers', 'Servers in the registry snapshot.');
  const degraded = gauge(
    'mcp_registry_degraded',
    '1 if the registry is unreachable or its snapshot is stale, otherwise 0.',
  );
  const readers = new Readers<RegistryFacts>();
  meter.addBatchObservableCallback(
    (result) => {
      const facts = readers.read().at(-1);
      if (facts === undefined) return;
      if (facts.revision !== null) result.observe(revision, facts.revision);
      if (facts.ageMs !== null) result.observe(age, facts.ageMs / 1000);
      result.observe(servers, facts.servers);
      result.observe(degraded, facts.degraded ? 1 : 0);
    },
    [revision, age, servers, degraded],
  );
  return (read) => readers.add(read);
}

class Readers<Facts> {
  readonly #readers = new Set<() => Facts>();
  used = false;

  add(read: () => Facts): () => void {
    this.used = true;
    this.#readers.add(read);
    return () => this.#readers.delete(read);
  }

  read(): Facts[] {
    return [...this.#readers].map((read) => read());
  }
}
