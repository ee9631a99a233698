import { Metrics } from './prometheus.ts';

/** What the gauges show; read when somebody asks. */
export interface SmsGauges {
  readonly revision: number;
  readonly servers: number;
  readonly watchers: number;
  readonly nodes: number;
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export class SmsMetrics {
  readonly #metrics = new Metrics();
  #gauges: SmsGauges = { revision: 0, servers: 0, watchers: 0, nodes: 0 };

  readonly requests = this.#metrics.counter(
    'spear_sms_requests_total',
    'Finished requests by protocol, method and status code.',
  );
  readonly denied = this.#metrics.counter('spear_sms_denied_total', 'Requests without a token that allows them.');
  readonly watchEvents = this.#metrics.counter('spear_sms_watch_events_total', 'Events sent to watchers.');
  readonly heartbeats = this.#metrics.counter('spear_sms_watch_heartbeats_total', 'Heartbeats sent to watchers.');
  readonly laggingWatchers = this.#metrics.counter(
    'spear_sms_watchers_lagging_total',
    'Watchers that were cut off because they read too slowly.',
  );
  readonly reloads = this.#metrics.counter('spear_sms_directory_reloads_total', 'Loads of the directory by outcome.');
  readonly writeSeconds = this.#metrics.histogram(
    'spear_sms_write_seconds',
    'Time from a valid upsert or delete to its being durable.',
    SECONDS,
  );

  constructor(startedAtMs: number) {
    const gauge = (name: keyof SmsGauges, help: string) =>
      this.#metrics.gauge(`spear_sms_${name}`, help, () => this.#gauges[name]);
    gauge('revision', 'Revision of the registry.');
    gauge('servers', 'Records in the registry.');
    gauge('watchers', 'Open gRPC watches.');
    gauge('nodes', 'Nodes that reported lately.');
    this.#metrics.gauge('process_resident_memory_bytes', 'Resident memory.', () => process.memoryUsage.rss());
    this.#metrics.gauge('process_start_time_seconds', 'Start time since the epoch.', () => startedAtMs / 1000);
  }

  text(gauges: SmsGauges): string {
    this.#gauges = gauges;
    return this.#metrics.text();
  }
}
