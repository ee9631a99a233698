// From an upsert to the caches of a hundred nodes, with ten thousand records in the registry.
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { McpRegistryService } from '../src/protocol/generated/sms/mcp_registry_pb.ts';
import { recordToWire } from '../src/protocol/record-wire.ts';
import { sampleRecord } from '../test/protocol/record-samples.ts';
import { largeRegistryId, makeLargeRegistry } from '../test/sms/large-registry.ts';

const usage = `Usage: node bench/sms.ts [options]

  --check   exits with 1 if the 99th percentile is not under 100 ms
  --quick   a short run with fewer nodes and records: shows that everything works
  --help    this text`;

const P99_CEILING_MS = 100;
const PAUSE_MS = 20;
const efforts = {
  thorough: { records: 10_000, processes: 4, caches: 2, watchers: 23, upserts: 500, warmUp: 50 },
  quick: { records: 500, processes: 1, caches: 2, watchers: 5, upserts: 20, warmUp: 2 },
} as const;
type Effort = (typeof efforts)[keyof typeof efforts];

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const now = () => performance.timeOrigin + performance.now();

const { values } = parseArgs({
  options: { check: { type: 'boolean' }, quick: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
});
if (values.help) console.log(usage);
else process.exitCode = await main(efforts[values.quick ? 'quick' : 'thorough']);

async function main(effort: Effort): Promise<number> {
  const directory = mkdtempSync(join(tmpdir(), 'spear-bench-sms-'));
  const data = join(directory, 'registry.db');
  await makeLargeRegistry(data, effort.records);
  const loopback = ['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0'];
  const sms = spawn(process.execPath, [file('../src/cli/spear-sms-entry.ts'), ...loopback, '--data', data], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  try {
    const [line] = (await once(createInterface(sms.stdout), 'line')) as [string];
    const { grpc } = JSON.parse(line) as { grpc: string };
    const token = (name: string) => readFileSync(join(directory, `${name}.token`), 'utf8').trim();
    const counts = [effort.records, effort.caches, effort.watchers].map(String);
    const nodes = Array.from({ length: effort.processes }, () =>
      fork(file('./sms-nodes.ts'), [grpc, token('node'), ...counts]),
    );
    await Promise.all(nodes.map((node) => once(node, 'message')));
    const started = await upsertAll(grpc, token('admin'), effort);
    return report(effort, started, await Promise.all(nodes.map(collect)));
  } finally {
    const ended = once(sms, 'exit');
    sms.kill('SIGTERM');
    await ended;
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Upsert {
  readonly startedAtMs: number;
  readonly acknowledgedMs: number;
}

/** One after another, with a pause between them: what is measured is the way of a change, not a queue. */
async function upsertAll(grpc: string, token: string, effort: Effort) {
  const transport = createGrpcTransport({
    baseUrl: `http://${grpc}`,
    interceptors: [
      (next) => (request) => {
        request.header.set('authorization', `Bearer ${token}`);
        return next(request);
      },
    ],
  });
  const client = createClient(McpRegistryService, transport);
  const upserts = new Map<number, Upsert>();
  for (let index = 0; index < effort.upserts + effort.warmUp; index++) {
    const id = largeRegistryId((index * 37) % effort.records);
    const record = recordToWire(sampleRecord(id, { display_name: `changed ${index}` }));
    const startedAtMs = now();
    const { revision } = await client.upsertMcpServer({ record });
    if (index >= effort.warmUp) upserts.set(Number(revision), { startedAtMs, acknowledgedMs: now() - startedAtMs });
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  return upserts;
}

type Seen = readonly (readonly [revision: number, atMs: number])[];

interface Collected {
  readonly inCaches: Seen;
  readonly inWatchers: Seen;
  readonly megabytes: number;
}

async function collect(node: ChildProcess): Promise<Collected> {
  // Let the last change arrive before asking what did.
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const answer = once(node, 'message') as Promise<[Collected]>;
  node.send('report');
  return (await answer)[0];
}

function report(effort: Effort, upserts: ReadonlyMap<number, Upsert>, collected: readonly Collected[]): number {
  const { processes, caches, watchers, records } = effort;
  const acknowledged = [...upserts.values()].map(({ acknowledgedMs }) => acknowledgedMs);
  const inCaches = delays(
    upserts,
    collected.flatMap((process) => process.inCaches),
  );
  const inWatchers = delays(
    upserts,
    collected.flatMap((process) => process.inWatchers),
  );
  console.log(
    `${processes * (caches + watchers)} watching clients, ${processes * caches} of them with a cache, in ${processes} processes; ` +
      `${records} records; ${upserts.size} upserts`,
  );
  print('acknowledged to the writer', acknowledged);
  print('visible in a cache', inCaches);
  print('arrived at the other clients', inWatchers);
  console.log(`memory of a process with clients: ${Math.max(...collected.map(({ megabytes }) => megabytes))} MB`);
  const missing = processes * (caches + watchers) * upserts.size - inCaches.length - inWatchers.length;
  if (missing !== 0) console.error(`${missing} changes did not arrive one by one`);
  const p99 = percentile(inCaches, 99);
  if (!values.check || (p99 < P99_CEILING_MS && missing === 0)) return 0;
  console.error(`the 99th percentile is ${p99.toFixed(1)} ms, it must be under ${P99_CEILING_MS} ms`);
  return 1;
}

/** From the start of each upsert to the moment at which it was seen. */
function delays(upserts: ReadonlyMap<number, Upsert>, seen: Seen): number[] {
  return seen.flatMap(([revision, atMs]) => {
    const upsert = upserts.get(revision);
    return upsert === undefined ? [] : [atMs - upsert.startedAtMs];
  });
}

function print(what: string, times: readonly number[]): void {
  const show = (percent: number) => `p${percent} ${percentile(times, percent).toFixed(1)} ms`;
  console.log(`${what.padEnd(36)}${show(50).padEnd(16)}${show(99).padEnd(16)}max ${Math.max(...times).toFixed(1)} ms`);
}

function percentile(times: readonly number[], percent: number): number {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))] ?? Number.NaN;
}
