import { randomInt } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Engine } from '../../scripts/engines/bring.ts';
import { etcd } from '../../scripts/engines/etcd.ts';
import { natsServer } from '../../scripts/engines/nats-server.ts';
import { needsEngine } from '../support/needs.ts';
import { runTopic } from './run-topic.ts';
import { topics } from './topics/all.ts';

/** A minute in all, on a quiet machine; a busy one gets more time, not less to do. */
const ALLOWED_MS = 60_000;

const engines: Readonly<Record<string, readonly Engine[]>> = { etcd: [etcd], cluster: [etcd, natsServer] };

describe('a short run of the torture suite', () => {
  it.for(topics)('$name: $title [torture.suite]', { timeout: 2 * ALLOWED_MS }, async ({ name }, { skip }) => {
    const missing = (engines[name] ?? []).map(needsEngine).find((text) => text !== undefined);
    if (missing !== undefined) skip(missing);
    const seed = randomInt(2 ** 32);
    console.log(`${name}: seed ${seed}; repeat it with npm run torture -- --short --seed ${seed} ${name}`);
    const { findings } = await runTopic({ name, short: true, seed, allowedMs: ALLOWED_MS });
    expect(findings.length).toBeGreaterThan(0);
    for (const { what, count, failures } of findings) {
      expect(failures, `${what}, seed ${seed}`).toEqual([]);
      expect(count, what).toBeGreaterThan(0);
    }
  });
});
