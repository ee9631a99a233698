import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { findEngine } from '../../../scripts/engines/bring.ts';
import { collector } from '../../../scripts/engines/collector.ts';
import { until } from '../../support/until.ts';

/** Another process may take the free port first. */
const TRIES = 5;

export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty: it is the first of its trace. */
  readonly parentSpanId: string;
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client' | 'other';
  readonly ms: number;
  readonly isError: boolean;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly service: string;
}

/** The OpenTelemetry collector in a process of its own, writing what it takes into a file. */
export class RunningCollector {
  readonly url: string;
  readonly #file: string;
  readonly #folder: string;
  readonly #child: ChildProcess;

  constructor(url: string, file: string, folder: string, child: ChildProcess) {
    this.url = url;
    this.#file = file;
    this.#folder = folder;
    this.#child = child;
  }

  /** Everything that it has written so far, as text. */
  text(): string {
    return readFileSync(this.#file, 'utf8');
  }

  spans(): CollectedSpan[] {
    return this.#requests().flatMap(({ resourceSpans = [] }) =>
      resourceSpans.flatMap(({ resource, scopeSpans }) =>
        scopeSpans.flatMap(({ spans }) => spans.map((span) => read(span, attributesOf(resource.attributes)))),
      ),
    );
  }

  /** Names of metrics that it was sent. */
  metrics(): Set<string> {
    const all = this.#requests().flatMap(({ resourceMetrics = [] }) =>
      resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics)),
    );
    return new Set(all.map(({ name }) => name));
  }

  /** Those that `wanted` picks, once there are `count` of them. */
  async until(wanted: (span: CollectedSpan) => boolean, count = 1): Promise<CollectedSpan[]> {
    await until(() => this.spans().filter(wanted).length >= count, `${count} spans at the collector`);
    return this.spans().filter(wanted);
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGKILL');
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, 'exit');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #requests(): CollectedRequest[] {
    const lines = this.text().split('\n');
    return lines.slice(0, -1).map((line) => JSON.parse(line) as CollectedRequest);
  }
}

export async function startCollector(): Promise<RunningCollector> {
  const binary = findEngine(collector);
  for (let tries = 1; ; tries++) {
    const folder = mkdtempSync(join(tmpdir(), 'spear-collector-'));
    const file = join(folder, 'collected.jsonl');
    const port = await freePort();
    writeFileSync(join(folder, 'config.yaml'), config(port, file));
    writeFileSync(file, '');
    const child = spawn(binary, ['--config', join(folder, 'config.yaml')], { stdio: ['ignore', 'ignore', 'pipe'] });
    if (await isReady(child)) return new RunningCollector(`http://127.0.0.1:${port}`, file, folder, child);
    rmSync(folder, { recursive: true, force: true });
    if (tries === TRIES) throw new Error('the collector does not start');
  }
}

async function isReady(child: ChildProcess): Promise<boolean> {
  for await (const line of createInterface(child.stderr as NodeJS.ReadableStream)) {
    if (line.includes('Everything is ready')) return true;
  }
  return false;
}

const config = (port: number, file: string) => `
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:${port}
exporters:
  file:
    path: ${file}
    append: true
    flush_interval: 20ms
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    traces: { receivers: [otlp], exporters: [file] }
    metrics: { receivers: [otlp], exporters: [file] }
`;

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

interface CollectedAttribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface RawSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status?: { readonly code?: number };
  readonly attributes?: readonly CollectedAttribute[];
}

interface CollectedRequest {
  readonly resourceSpans?: readonly {
    readonly resource: { readonly attributes: readonly CollectedAttribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly RawSpan[] }[];
  }[];
  readonly resourceMetrics?: readonly {
    readonly scopeMetrics: readonly { readonly metrics: readonly { readonly name: string }[] }[];
  }[];
}

const kinds: Readonly<Record<number, CollectedSpan['kind']>> = { 1: 'internal', 2: 'server', 3: 'client' };
const ERROR = 2;

function read(span: RawSpan, resource: Readonly<Record<string, unknown>>): CollectedSpan {
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId ?? '',
    name: span.name,
    kind: kinds[span.kind] ?? 'other',
    ms: Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e6,
    isError: span.status?.code === ERROR,
    attributes: attributesOf(span.attributes ?? []),
    service: String(resource['service.name']),
  };
}

function attributesOf(attributes: readonly CollectedAttribute[]): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value: { intValue, ...value } }) => [
      key,
      intValue === undefined ? Object.values(value)[0] : Number(intValue),
    ]),
  );
}
