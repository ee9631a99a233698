export type Labels = Readonly<Record<string, string>>;

interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  samples(): string[];
}

/** Counters, gauges and histograms in the text format that Prometheus reads. Label values come from fixed sets. */
export class Metrics {
  readonly #metrics: Metric[] = [];

  counter(name: string, help: string): Counter {
    return this.#add(new Counter(name, help));
  }

  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    return this.#add(new Histogram(name, help, bounds));
  }

  gauge(name: string, help: string, read: () => number): void {
    this.#add({ name, help, type: 'gauge', samples: () => [`${name} ${read()}`] });
  }

  text(): string {
    const blocks = this.#metrics.map((metric) => {
      const head = [`# HELP ${metric.name} ${metric.help}`, `# TYPE ${metric.name} ${metric.type}`];
      return [...head, ...metric.samples()].join('\n');
    });
    return `${blocks.join('\n')}\n`;
  }

  #add<M extends Metric>(metric: M): M {
    this.#metrics.push(metric);
    return metric;
  }
}

export class Counter implements Metric {
  readonly type = 'counter';
  readonly name: string;
  readonly help: string;
  readonly #values = new Map<string, number>();

  constructor(name: string, help: string) {
    this.name = name;
    this.help = help;
  }

  add(labels: Labels = {}, amount = 1): void {
    const key = labelText(labels);
    this.#values.set(key, (this.#values.get(key) ?? 0) + amount);
  }

  samples(): string[] {
    if (this.#values.size === 0) return [`${this.name} 0`];
    return [...this.#values].map(([labels, value]) => `${this.name}${labels} ${value}`);
  }
}

export class Histogram implements Metric {
  readonly type = 'histogram';
  readonly name: string;
  readonly help: string;
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;
  #count = 0;

  constructor(name: string, help: string, bounds: readonly number[]) {
    this.name = name;
    this.help = help;
    this.#bounds = bounds;
    this.#counts = bounds.map(() => 0);
  }

  observe(value: number): void {
    this.#sum += value;
    this.#count += 1;
    for (const [index, bound] of this.#bounds.entries()) {
      if (value <= bound) this.#counts[index] = (this.#counts[index] ?? 0) + 1;
    }
  }

  samples(): string[] {
    const buckets = this.#bounds.map((bound, index) => `${this.name}_bucket{le="${bound}"} ${this.#counts[index]}`);
    return [
      ...buckets,
      `${this.name}_bucket{le="+Inf"} ${this.#count}`,
      `${this.name}_sum ${this.#sum}`,
      `${this.name}_count ${this.#count}`,
    ];
  }
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
