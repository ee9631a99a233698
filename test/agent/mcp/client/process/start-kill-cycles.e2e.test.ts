import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { call, changeOf, eventually, openPool, processesWith, stdioRecord, textOf } from '../pool-samples.ts';

const CYCLES = 300;
const AT_ONCE = 20;

describe('300 start and kill cycles', () => {
  it('leave no process behind', { timeout: 170_000 }, async () => {
    const marker = randomUUID();
    const { pool } = openPool();
    const records = Array.from({ length: AT_ONCE }, (_, i) =>
      stdioRecord(`tiny-${i}`, 'mid-call.mjs', { env: { MARKER: marker } }),
    );
    const seen = new Set<string>();
    let killed = 0;
    for (let cycle = 0; cycle < CYCLES / AT_ONCE; cycle++) {
      await Promise.all(
        records.map(async (record, index) => {
          const pid = await textOf(call(pool, record, 'pid'));
          seen.add(pid);
          // In turn: killed from outside, ended in the middle of a call, and ended by the pool for being replaced.
          if ((cycle + index) % 3 === 0) process.kill(Number(pid), 'SIGKILL');
          else if ((cycle + index) % 3 === 1) expect((await call(pool, record, 'die')).ok).toBe(false);
          else pool.applyChange(changeOf({ deleted: [record.server_id] }));
          killed += 1;
        }),
      );
      await eventually(() => expect(pool.stats().connected).toBe(0));
      pool.applyChange(changeOf({ upserted: records }));
    }
    expect(killed).toBe(CYCLES);
    expect(seen.size).toBeGreaterThan(CYCLES * 0.9);
    await pool.close();
    expect(pool.stats().subprocesses).toBe(0);
    expect(processesWith(marker)).toEqual([]);
  });
});
