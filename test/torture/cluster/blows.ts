import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../random.ts';
import { type ClusterLife, LEASE_MS } from './cluster-life.ts';

const MAX_DEAD_MS = 1_500;
/** Beyond the lease. */
const MAX_PAUSED_MS = 1_000;
const MAX_HELD_MS = 3_000;

type Blow = (life: ClusterLife, random: Random) => Promise<void>;

/** One server of a kind at a time: two of three are a majority. */
const blows = {
  'nodes killed': ({ nodes }, random) => again(random.pick(nodes), random),
  'pauses longer than the lease': async ({ nodes }, random) => {
    const node = random.pick(nodes);
    node.signal('SIGSTOP');
    await delay(LEASE_MS + random.below(MAX_PAUSED_MS));
    node.signal('SIGCONT');
  },
  'nats-servers killed': ({ nats }, random) => again(random.pick(nats.members), random),
  'etcds killed': ({ etcd }, random) => again(random.pick(etcd.members), random),
  'registries killed': ({ registries }, random) => again(random.pick(registries), random),
  'connections cut': async ({ network }, random) => void random.pick(network).cut(),
  'half open': async ({ network }, random) =>
    void random.pick(network).halfOpen(random.chance(2) ? 'client' : 'server'),
  'held up': async ({ network }, random) => {
    const goOn = random.pick(network).hold();
    await delay(random.below(MAX_HELD_MS));
    goOn();
  },
} as const satisfies Record<string, Blow>;

const kinds = Object.keys(blows) as readonly (keyof typeof blows)[];

/** What was done to a cluster. */
export class Blows {
  readonly #life: ClusterLife;
  readonly #random: Random;
  readonly #counts = new Map<keyof typeof blows, number>(kinds.map((kind) => [kind, 0]));

  constructor(life: ClusterLife, random: Random) {
    this.#life = life;
    this.#random = random;
  }

  async strike(): Promise<void> {
    await this.#strike(this.#random.pick(kinds));
  }

  /** One of each kind within `ms`, whatever else is down at that moment. */
  async strikeAll(ms: number): Promise<void> {
    await Promise.all(
      kinds.map(async (kind) => {
        await delay(this.#random.below(ms));
        await this.#strike(kind);
      }),
    );
  }

  get told(): string {
    return kinds.map((kind) => `${this.#counts.get(kind)} ${kind}`).join(', ');
  }

  async #strike(kind: keyof typeof blows): Promise<void> {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
    await blows[kind](this.#life, this.#random);
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
