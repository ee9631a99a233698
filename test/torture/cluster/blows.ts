import { setTimeout as delay } from 'node:timers/promises';
import { Random } from '../random.ts';
import { type ClusterLife, LEASE_MS } from './cluster-life.ts';

const MAX_DEAD_MS = 1_500;
/** Beyond the lease. */
const MAX_PAUSED_MS = 1_000;
const MAX_HELD_MS = 3_000;

type Blow = (life: ClusterLife, random: Random) => Promise<void>;

interface Group {
  /** Up to so long nothing of it is struck, after each blow: servers take seconds to find another leader. */
  readonly maxQuietMs: number;
  readonly blows: Readonly<Record<string, Blow>>;
}

const quick = (blows: Group['blows']): Group => ({ maxQuietMs: 2_000, blows });
const slow = (blows: Group['blows']): Group => ({ maxQuietMs: 10_000, blows });

/**
 * Each group is struck by itself, one blow after the other: whatever else is down at that moment, two of three servers
 * are a majority.
 */
const groups: readonly Group[] = [
  quick({
    'nodes killed': ({ nodes }, random) => again(random.pick(nodes), random),
    'pauses longer than the lease': async ({ nodes }, random) => {
      const node = random.pick(nodes);
      node.signal('SIGSTOP');
      await delay(LEASE_MS + random.below(MAX_PAUSED_MS));
      node.signal('SIGCONT');
    },
  }),
  slow({ 'nats-servers killed': ({ nats }, random) => again(random.pick(nats.members), random) }),
  slow({ 'etcds killed': ({ etcd }, random) => again(random.pick(etcd.members), random) }),
  quick({
    'registries killed': ({ registries }, random) => again(random.pick(registries), random),
    'records changed': (life) => life.changeRecord(),
  }),
  slow({
    'times connections cut': async ({ network }, random) => void random.pick(network).cut(),
    'times left half open': async ({ network }, random) =>
      void random.pick(network).halfOpen(random.chance(2) ? 'client' : 'server'),
    'times held up': async ({ network }, random) => {
      const goOn = random.pick(network).hold();
      await delay(random.below(MAX_HELD_MS));
      goOn();
    },
  }),
];

/** What was done to a cluster. */
export class Blows {
  readonly #life: ClusterLife;
  readonly #counts = new Map<string, number>();

  constructor(life: ClusterLife) {
    this.#life = life;
  }

  /** Strikes all groups until somebody says that it is enough; each kind of blow falls once at least. */
  async rain(seeds: Random, isEnough: () => boolean): Promise<void> {
    await Promise.all(groups.map((group) => this.#rainOn(group, new Random(seeds.seed()), isEnough)));
  }

  get told(): string {
    return groups
      .flatMap(({ blows }) => Object.keys(blows))
      .map((kind) => `${this.#counts.get(kind) ?? 0} ${kind}`)
      .join(', ');
  }

  async #rainOn({ blows, maxQuietMs }: Group, random: Random, isEnough: () => boolean): Promise<void> {
    const kinds = Object.keys(blows);
    const missing = () => kinds.find((kind) => !this.#counts.has(kind));
    for (let kind = missing(); kind !== undefined; kind = missing() ?? (isEnough() ? undefined : random.pick(kinds))) {
      this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
      await blows[kind]?.(this.#life, random);
      if (!isEnough()) await delay(random.below(maxQuietMs));
    }
  }
}

/** kill -9, and started again. */
async function again(
  one: { readonly kill: () => Promise<void>; readonly start: () => Promise<void> },
  random: Random,
): Promise<void> {
  await one.kill();
  await delay(random.below(MAX_DEAD_MS));
  await one.start();
}
