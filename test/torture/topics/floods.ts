import { startFloodedNode } from '../floods/flooded-node.ts';
import { startFloodedSms } from '../floods/flooded-sms.ts';
import type { Target } from '../floods/ground.ts';
import { type FloodKind, nodeKinds, plainKinds, tlsKinds } from '../floods/kinds.ts';
import { Flooder, type Latency, peakMebibytes } from '../floods/measure.ts';
import { type Probed, percentile } from '../floods/probe.ts';
import { type Effort, Failures, type Finding, type Topic } from '../topic.ts';

const MAX_MS = 100;
const MAX_MEBIBYTES = 500;
/** Of all kinds together: fewer say nothing about nine of ten, and a busy machine makes few in the time. */
const MIN_PROBES = 40;

interface Case {
  readonly what: string;
  readonly kinds: readonly FloodKind[];
  /** The address that the flood comes from; the probe's is 127.0.0.1. */
  readonly from: string;
  readonly isSecure: boolean;
  /** Whether the probe asks through the socket of the registry's own user. */
  readonly bySocket: boolean;
  /** Whether a node is flooded instead of a registry. @default false */
  readonly isNode?: true;
}

/** What is flooded and probed. */
interface Flooded {
  readonly pid: number;
  readonly probed: Probed;
  crashed(): number;
  target(from: string): Target;
  close(): Promise<void>;
}

const cases: readonly Case[] = [
  { what: 'floods from another address', kinds: plainKinds, from: '127.0.0.2', isSecure: false, bySocket: false },
  // Nothing tells the probe from the flood there, so it asks where only its own user can.
  { what: 'floods from this address', kinds: plainKinds, from: '127.0.0.1', isSecure: false, bySocket: true },
  { what: 'floods of TLS handshakes', kinds: tlsKinds, from: '127.0.0.2', isSecure: true, bySocket: false },
  // A node serves other callers of the same address: the flood may not take all its connections.
  {
    what: 'a node: floods from this address',
    kinds: nodeKinds,
    from: '127.0.0.1',
    isSecure: false,
    bySocket: false,
    isNode: true,
  },
];

export const topic: Topic = async (effort) => {
  const flooder = await Flooder.start();
  try {
    const findings: Finding[] = [];
    for (const one of cases) findings.push(await flooded(one, effort, flooder));
    return findings;
  } finally {
    flooder.end();
  }
};

/**
 * p99 for every kind by itself. A short flood is all beginning, where everything comes at once: there it is nine of ten
 * probes of all kinds together.
 */
async function flooded(one: Case, effort: Effort, flooder: Flooder) {
  const { what, kinds, from } = one;
  const failures = new Failures();
  const share = effort.short ? 0.9 : 0.99;
  const service = await (one.isNode ? floodedNode(failures) : floodedSms(one, failures));
  const { pid, probed } = service;
  const all: Latency[] = [];
  let worst = { kind: '', ms: 0 };
  let count = 0;
  for (const [index, kind] of kinds.entries()) {
    if (effort.isOver()) break;
    const flood = { kind, seed: effort.random.seed(), target: service.target(from) };
    const endsAt = performance.now() + effort.of(100, 5_000);
    const { latencies, done } = await flooder.flood(
      flood,
      probed,
      pid,
      (probes) => performance.now() < endsAt || probes < MIN_PROBES / kinds.length,
    );
    all.push(...latencies);
    count += done;
    const ms = servedMs(latencies, share);
    if (ms >= worst.ms) worst = { kind, ms };
    if (!effort.short && !(ms <= MAX_MS)) failures.add(`${kind}, seed ${flood.seed}: ${figures(latencies, share)}`);
    effort.progress(index, kinds.length);
  }
  if (!(servedMs(all, share) <= MAX_MS)) failures.add(`all together: ${figures(all, share)}; worst: ${worst.kind}`);
  const peak = peakMebibytes(pid);
  if (!(peak <= MAX_MEBIBYTES)) failures.add(`the process had ${peak} MiB of memory`);
  await service.close();
  const finding: Finding = {
    what,
    count,
    lost: all.filter(({ ms }) => ms === Number.POSITIVE_INFINITY).length,
    crashed: service.crashed(),
    measured: `${figures(all, share)}; worst: ${worst.kind}, ${worst.ms.toFixed(0)} ms; ${peak} MiB`,
    failures: failures.list(),
  };
  return finding;
}

async function floodedSms({ isSecure, bySocket }: Case, failures: Failures): Promise<Flooded> {
  const { lives, socketPath, target, close } = await startFloodedSms(failures, isSecure);
  const url = `${bySocket ? 'http://localhost' : lives.addresses.http}/readyz`;
  const probed = { url, socketPath: bySocket ? socketPath : null };
  return { pid: lives.pid, probed, crashed: () => lives.crashed, target, close };
}

async function floodedNode(failures: Failures): Promise<Flooded> {
  const { node, probed, target, close } = await startFloodedNode(failures);
  return { pid: node.pid ?? 0, probed, crashed: () => node.crashed, target, close };
}

function servedMs(latencies: readonly Latency[], share: number): number {
  const values = latencies.map((latency) => latency.servedMs);
  return percentile(values, share);
}

function figures(latencies: readonly Latency[], share: number): string {
  const served = servedMs(latencies, share).toFixed(0);
  const all = percentile(
    latencies.map(({ ms }) => ms),
    share,
  ).toFixed(0);
  const probes = `p${share * 100} of ${latencies.length} probes ${served} ms (${all} ms with waits for a processor)`;
  const unanswered = Map.groupBy(
    latencies.flatMap(({ problem }) => problem ?? []),
    (problem) => problem,
  );
  return [probes, ...[...unanswered].map(([problem, of]) => `${of.length} × ${problem}`)].join(', ');
}
