import { Random } from '../random.ts';
import { LeakyServer } from '../secrets/leaky-server.ts';
import { registryRound } from '../secrets/registry-round.ts';
import { type RunEnd, runEnds, runRound } from '../secrets/run-round.ts';
import { Vault } from '../secrets/vault.ts';
import { Failures, type Finding, type Topic } from '../topic.ts';

const MIB = 1024 * 1024;

type Round = (vault: Vault, random: Random) => Promise<number>;

export const topic: Topic = async (effort) => {
  const leaky = await LeakyServer.start();
  const runs = new Figure('canaries in runs of a guest');
  const registries = new Figure('canaries in registries');
  const run = (end: RunEnd) => () =>
    runs.round(effort.random.seed(), end, (vault, random) => runRound(vault, end, leaky, random));
  const registry = () =>
    registries.round(effort.random.seed(), 'a registry', (vault, random) =>
      registryRound(vault, leaky, random, effort.short),
    );
  // So that whatever time there is, it goes to all of them.
  const [first, ...others] = runEnds;
  const once = effort.short
    ? [run(first), run(effort.random.pick(others)), registry]
    : [...runEnds.flatMap((end) => [run(end), registry])];
  const all = Array.from({ length: effort.of(1, 10) }, () => once).flat();
  try {
    for (const [index, next] of all.entries()) {
      if (effort.isOver()) break;
      await next();
      effort.progress(index, all.length);
    }
  } finally {
    leaky.stop();
  }
  return [runs.finding(), registries.finding()];
};

/** Rounds of one kind, and what was found in them. */
class Figure {
  readonly #what: string;
  readonly #failures = new Failures();
  readonly #places = new Set<string>();
  #count = 0;
  #rounds = 0;
  #bytes = 0;

  constructor(what: string) {
    this.#what = what;
  }

  async round(seed: number, about: string, round: Round): Promise<void> {
    const random = new Random(seed);
    const vault = new Vault(random);
    try {
      const answered = await round(vault, random);
      // Without an answer there was nothing that a secret could have been in.
      if (answered === 0) this.#failures.add(`${about} (case ${seed}): nothing was answered`);
      for (const text of vault.found()) this.#failures.add(`${about} (case ${seed}): ${text}`);
      for (const place of vault.places) this.#places.add(place);
      this.#count += vault.places.size;
      this.#bytes += vault.bytes;
      this.#rounds++;
    } finally {
      vault.close();
    }
  }

  finding(): Finding {
    const mebibytes = (this.#bytes / MIB).toFixed(1);
    return {
      what: this.#what,
      count: this.#count,
      lost: this.#failures.count,
      crashed: 0,
      measured: `${this.#places.size} places, ${this.#rounds} rounds, ${mebibytes} MiB searched`,
      failures: this.#failures.list(),
    };
  }
}
