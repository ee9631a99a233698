import type { QueueFacts } from '../server/queue/run-queue.ts';
import type { CollectMetrics } from '../server/telemetry/metrics.ts';
import { openPrometheusMeters } from '../server/telemetry/prometheus.ts';

/** What the gauges show; read when somebody asks. */
export interface RegistryGauges extends PlainGauges {
  /** Null: this registry takes no runs, or its queue is out of reach. */
  readonly runs: QueueFacts | null;
  /** Null: there is no TLS. */
  readonly certificateExpiresAtMs: number | null;
}

interface PlainGauges {
  readonly revision: number;
  readonly servers: number;
  readonly watchers: number;
  /** Machines. */
  readonly nodes: number;
  readonly node_processes: number;
  /** 1: changes can be stored; 0: they cannot. */
  readonly writable: number;
  readonly approvals_waiting: number;
}

const WRITE_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const gaugeTexts = {
  revision: 'Revision of the registry.',
  servers: 'Registered MCP servers.',
  watchers: 'Open gRPC watches.',
  nodes: 'Machines with at least one node process that reported recently.',
  node_processes: 'Node processes that reported recently.',
  writable: 'Whether changes can be stored: 1 or 0.',
  approvals_waiting: 'Pending approvals.',
} as const satisfies Record<keyof PlainGauges, string>;

/** The instruments of an SMS. Label values come from fixed sets: routes, methods, status codes. */
export class RegistryMetrics {
  readonly #meters;
  readonly requests;
  readonly denied;
  readonly shed;
  readonly watchEvents;
  readonly heartbeats;
  readonly laggingWatchers;
  readonly reloads;
  readonly writeSeconds;
  readonly decisions;
  #gauges: RegistryGauges = {
    revision: 0,
    servers: 0,
    watchers: 0,
    nodes: 0,
    node_processes: 0,
    writable: 1,
    approvals_waiting: 0,
    runs: null,
    certificateExpiresAtMs: null,
  };

  constructor(startedAtMs: number) {
    this.#meters = openPrometheusMeters(startedAtMs);
    const meter = this.#meters.provider.getMeter('spear-sms');
    const counter = (name: string, description: string) => meter.createCounter(name, { description });
    this.requests = counter('spear_sms_requests_total', 'Finished requests by protocol, method and status code.');
    this.denied = counter(
      'spear_sms_denied_total',
      'Requests denied because their token is missing or lacks permission.',
    );
    this.shed = counter('spear_sms_shed_total', 'Requests shed by rate or concurrency limits, by reason.');
    this.watchEvents = counter('spear_sms_watch_events_total', 'Events sent to watchers.');
    this.heartbeats = counter('spear_sms_watch_heartbeats_total', 'Heartbeats sent to watchers.');
    this.laggingWatchers = counter(
      'spear_sms_watchers_lagging_total',
      'Watchers disconnected because they read too slowly.',
    );
    this.reloads = counter('spear_sms_directory_reloads_total', 'Loads of the registry directory, by outcome.');
    this.decisions = counter('spear_sms_approval_decisions_total', 'Approvals decided by users, by decision.');
    this.writeSeconds = meter.createHistogram('spear_sms_write_seconds', {
      description: 'Time from accepting an upsert or delete until it is durable.',
      advice: { explicitBucketBoundaries: WRITE_SECONDS },
    });
    // A counter without labels is there from the start: a first event is seen as a step, not as a new series.
    for (const plain of [this.watchEvents, this.heartbeats, this.laggingWatchers]) plain.add(0);
    for (const [name, description] of Object.entries(gaugeTexts)) {
      const gauge = meter.createObservableGauge(`spear_sms_${name}`, { description });
      gauge.addCallback((result) => result.observe(this.#gauges[name as keyof PlainGauges]));
    }
    const expiry = meter.createObservableGauge('spear_sms_certificate_expiry_timestamp_seconds', {
      description: 'Time at which the TLS certificate expires, in seconds since the epoch.',
    });
    expiry.addCallback((result) => {
      const { certificateExpiresAtMs: at } = this.#gauges;
      if (at !== null) result.observe(at / 1000);
    });
    const runs = meter.createObservableGauge('spear_sms_runs', {
      description: 'Retained runs in the queue, by status.',
    });
    runs.addCallback((result) => {
      if (this.#gauges.runs === null) return;
      for (const [status, count] of Object.entries(this.#gauges.runs.byStatus)) result.observe(count, { status });
    });
    const age = meter.createObservableGauge('spear_sms_run_queue_age_seconds', {
      description: 'Age of the oldest queued run.',
    });
    age.addCallback((result) => {
      if (this.#gauges.runs !== null) result.observe((this.#gauges.runs.oldestQueuedMs ?? 0) / 1000);
    });
  }

  collect(gauges: RegistryGauges): ReturnType<CollectMetrics> {
    this.#gauges = gauges;
    return this.#meters.collect();
  }

  text(gauges: RegistryGauges): Promise<string> {
    this.#gauges = gauges;
    return this.#meters.text();
  }
}
