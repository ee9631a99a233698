import type { Meter } from '@opentelemetry/api';
import { type AuditEvent, type AuditSink, writeRefused } from '../audit/event.ts';
import { BoundedLabel, McpLabels } from './labels.ts';

/** Upper bounds of buckets. A tool call may take an hour. */
export const LATENCY_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600,
];
const OUTPUT_BYTES = [64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 10_485_760];

/** Task names in labels; a process normally runs one task. */
const MAX_TASKS = 50;
/** Reasons, codes and budgets are codes of this project: far fewer than this. */
const MAX_WORDS = 64;

/** One MCP tool call that has ended. */
export interface McpToolCallFacts {
  /** @default tool */
  readonly kind?: 'tool' | 'resource' | 'prompt';
  readonly server: string | null;
  readonly tool: string;
  /** `ok`, or the code of the error. */
  readonly outcome: string;
  readonly durationMs: number;
  readonly bytes: number;
}

/** Event of a connection in the pool. */
export interface PoolEventFacts {
  readonly event: string;
  readonly serverId: string | null;
  readonly durationMs?: number;
  readonly tools?: readonly string[];
}

/** Metrics of MCP servers, calls and denials. The names are fixed: existing platforms collect them. */
export class McpMetrics {
  readonly labels = new McpLabels();
  /** Adds a pool to the gauges. Returns a function that removes it. */
  readonly watchPool: (read: () => PoolFacts) => () => void;
  /** The same for the registry that this node follows. */
  readonly watchRegistry: (read: () => RegistryFacts) => () => void;
  readonly #tasks = new BoundedLabel(MAX_TASKS);
  readonly #words = new BoundedLabel(MAX_WORDS);
  readonly #instruments;

  constructor(meter: Meter) {
    this.watchPool = poolGauges(meter, this.labels);
    this.watchRegistry = registryGauges(meter);
    const latency = { advice: { explicitBucketBoundaries: LATENCY_SECONDS } };
    this.#instruments = {
      connects: meter.createCounter('mcp_server_connect_total', {
        description: 'Connection attempts to MCP servers.',
      }),
      connectErrors: meter.createCounter('mcp_server_connect_error_total', {
        description: 'Failed connection attempts to MCP servers.',
      }),
      lost: meter.createCounter('mcp_server_connection_lost_total', {
        description: 'Lost connections to MCP servers.',
      }),
      listLatency: meter.createHistogram('mcp_list_tools_latency_seconds', {
        description: 'Duration of a tools/list request, including all pages.',
        ...latency,
      }),
      listErrors: meter.createCounter('mcp_list_tools_error_total', { description: 'Failed tools/list requests.' }),
      calls: meter.createCounter('mcp_tool_call_total', {
        description: 'Completed MCP tool calls, including denied ones.',
      }),
      callErrors: meter.createCounter('mcp_tool_call_error_total', {
        description: 'MCP tool calls that failed, by error code.',
      }),
      callLatency: meter.createHistogram('mcp_tool_call_latency_seconds', {
        description: 'Duration of an MCP tool call, including time in the queue.',
        ...latency,
      }),
      callBytes: meter.createHistogram('mcp_tool_call_output_bytes', {
        description: 'Size of a tool result as delivered to the model or the guest.',
        advice: { explicitBucketBoundaries: OUTPUT_BYTES },
      }),
      injections: meter.createCounter('mcp_injection_total', {
        description: 'Tool injections into model requests, by server and outcome (success, failed, denied).',
      }),
      denials: meter.createCounter('mcp_denied_total', {
        description: 'Denied servers and calls, by reason.',
      }),
      effective: meter.createGauge('mcp_effective_servers', {
        description: 'MCP servers available to the newest session of a task.',
      }),
      approvals: meter.createCounter('mcp_approval_total', {
        description: 'Approval requests, by decision.',
      }),
      elicitations: meter.createCounter('mcp_elicitation_total', {
        description: 'Elicitation requests of servers during calls, by mode and answer.',
      }),
      budgets: meter.createCounter('spear_budget_hit_total', { description: 'Sends and calls stopped by a limit.' }),
    };
  }

  toolCalled({ kind = 'tool', server, tool, outcome, durationMs, bytes }: McpToolCallFacts): void {
    const { calls, callErrors, callLatency, callBytes } = this.#instruments;
    // Each URI would be a series; a prompt may have the name of a tool.
    const labels = this.labels.tool(server, kind === 'tool' ? tool : '');
    calls.add(1, labels);
    callLatency.record(durationMs / 1000, labels);
    callBytes.record(bytes, labels);
    if (outcome !== 'ok') callErrors.add(1, { ...labels, code: this.#words.value(outcome) });
  }

  poolEvent({ event, serverId, durationMs, tools }: PoolEventFacts): void {
    if (serverId === null) return;
    this.labels.knowServer(serverId);
    const labels = { server_id: this.labels.server(serverId) };
    const { connects, connectErrors, lost, listLatency, listErrors } = this.#instruments;
    switch (event) {
      case 'connected':
        connects.add(1, labels);
        return;
      case 'connect_failed':
        connects.add(1, labels);
        connectErrors.add(1, labels);
        return;
      case 'connection_lost':
        lost.add(1, labels);
        return;
      case 'tools_listed':
        if (tools !== undefined) this.labels.knowTools(serverId, tools);
        if (durationMs !== undefined) listLatency.record(durationMs / 1000, labels);
        return;
      case 'list_failed':
        listErrors.add(1, labels);
    }
  }

  /** The same audit sink, with its events counted. */
  countedSink(audit: AuditSink, task: string | null): AuditSink {
    return {
      write: (instance, event) => {
        this.#audited(event, task);
        audit.write(instance, event);
      },
      writeRefused: (instance, started, finished) => {
        this.#audited(finished, task);
        writeRefused(audit, instance, started, finished);
      },
      ...(audit.written ? { written: audit.written } : {}),
      ...(audit.showArguments ? { showArguments: audit.showArguments } : {}),
      ...(audit.keepArguments ? { keepArguments: audit.keepArguments } : {}),
    };
  }

  #audited(event: AuditEvent, task: string | null): void {
    const { injections, effective, approvals, elicitations, budgets } = this.#instruments;
    switch (event.event) {
      case 'session.created':
        effective.record(event.servers.length, { task_id: this.#tasks.value(task ?? '') });
        for (const { server_id: server, tool_name: tool, reason } of event.exclusions) {
          if (tool !== null) continue;
          injections.add(1, { server_id: this.labels.server(server), status: 'denied' });
          this.#denied(server, reason);
        }
        return;
      case 'mcp.injected':
        injections.add(1, {
          server_id: this.labels.server(event.server_id),
          status: event.status === 'ok' ? 'success' : 'failed',
        });
        if (event.reason !== null) this.#denied(event.server_id, event.reason);
        return;
      case 'tool_call.finished':
        if (event.status === 'denied' && event.reason !== null) this.#denied(event.server_id, event.reason);
        return;
      case 'approval.decided':
        approvals.add(1, { server_id: this.labels.server(event.server_id), decision: event.decision });
        return;
      case 'elicitation.answered': {
        const { mode, action } = event;
        elicitations.add(1, { server_id: this.labels.server(event.server_id), mode, action });
        return;
      }
      case 'budget.hit':
        budgets.add(1, { budget: this.#words.value(event.budget) });
    }
  }

  #denied(server: string | null, reason: string): void {
    this.#instruments.denials.add(1, { server_id: this.labels.server(server), reason: this.#words.value(reason) });
  }
}

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

/** Gauges over the current state of all pools. The returned function adds a pool and returns a function that removes it. */
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
        if (label.server_id !== server.serverId) continue; // a gauge cannot represent several servers
        result.observe(up, server.connected ? 1 : 0, label);
        result.observe(reconnects, server.reconnects, label);
      }
    },
    [...Object.values(sums), up, reconnects],
  );
  return (read) => readers.add(read);
}

/** Gauges over the current state of the registry that this node follows. */
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
