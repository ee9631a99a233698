import type { Topic } from '../topic.ts';

export interface TopicEntry {
  readonly name: string;
  /** What is done to what, in a line. */
  readonly title: string;
  /** The figure that a full run is to reach. */
  readonly goal: string;
  /** Loaded in the topic's own process, and nowhere else. */
  readonly load: () => Promise<Topic>;
}

const entry = (name: string, title: string, goal: string, load: () => Promise<{ topic: Topic }>): TopicEntry => ({
  name,
  title,
  goal,
  load: async () => (await load()).topic,
});

/** The topics in the order of the table. */
export const topics: readonly TopicEntry[] = [
  entry(
    'hostcalls',
    'random calls, pointers and JSON in all lanes',
    '1,000,000 calls, no crash, documented errnos only',
    () => import('./hostcalls.ts'),
  ),
  entry(
    'binaries',
    'mutated modules and components of every toolchain through admission',
    '1,000,000 mutations, no hostile name reaches jco, no crash',
    () => import('./binaries.ts'),
  ),
  entry(
    'guests',
    'thirty hostile guests, each beside an honest one',
    'memory of the host and latency of the honest guest bounded',
    () => import('./guests.ts'),
  ),
  entry(
    'servers',
    'forty behaviours of a server on three transports',
    'no wait past its deadline, no crash, others unaffected',
    () => import('./servers.ts'),
  ),
  entry(
    'tools',
    'runs on a node whose servers hang, crash, are denied or sandboxed away',
    '10,000 runs, none ends without either its tools or a degraded mark',
    () => import('./tools.ts'),
  ),
  entry(
    'schemas',
    'generated and hostile schemas and values',
    '100,000, the host thread never blocked over 50 ms',
    () => import('./schemas.ts'),
  ),
  entry(
    'processes',
    'start of stdio servers, and kill -9 of the host',
    '2,000 cycles, no orphan',
    () => import('./processes.ts'),
  ),
  entry(
    'registry',
    'spear-sms: kill -9 under writes, full disk, pause, clock steps',
    '200 kills, no acknowledged write lost, no gap or double at a watcher',
    () => import('./registry.ts'),
  ),
  entry(
    'etcd',
    'two spear-sms on three members of etcd: kill -9 of either, and pauses, under writes',
    '1,000 acknowledged writes, none lost, each delivered once and in order',
    () => import('./etcd.ts'),
  ),
  entry(
    'secrets',
    'canaries in forty places, every output searched, also encoded',
    'none found',
    () => import('./secrets.ts'),
  ),
  entry(
    'stops',
    'stops of random scopes, set and lifted under calls and runs',
    'p99 up to 250 ms from acknowledged to refused on 100 clients; 400 runs, no call while stopped, none twice, each run ends once',
    () => import('./stops.ts'),
  ),
  entry('approvals', 'every bound field of an approval changed', 'all refused', () => import('./approvals.ts')),
  entry(
    'floods',
    'spear-sms without a token: floods of every kind; a node: one caller with streams and uploads, random tokens',
    'p99 of /readyz, and of a request of another caller, up to 100 ms, memory up to 500 MiB',
    () => import('./floods.ts'),
  ),
  entry(
    'journal',
    'every guest recorded once, and replayed on a loaded machine without any process or socket',
    '20 replays of each: output, exit code and hash the same',
    () => import('./journal.ts'),
  ),
  entry(
    'node',
    'spearlet: kill -9 under queued runs of agents, backups and restores that are killed, and turnover',
    '50 kills under 200 runs and 30 restores, each run ends once, nothing is done twice; 50,000 runs without growth of live objects',
    () => import('./node.ts'),
  ),
  entry(
    'cluster',
    'nodes that share NATS and follow registries on etcd: kill -9 of all of them, pauses longer than the lease, cut and half-open connections, under runs that call tools',
    '2,000 runs of 5 tool calls, each ends once, no tool is called twice, no fenced node writes',
    () => import('./cluster.ts'),
  ),
];
