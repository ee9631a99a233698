// One of several processes that use a cache at the same time: it stores, loads and damages entries of a few keys, in a
// cache that is too small for all, and counts what it got that was not what somebody stored.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ComponentCache, cacheKey } from '../../../../src/runtime/wasm/component/component-cache.ts';

const ROUNDS = 300;
const [directory = '', seed = '0'] = process.argv.slice(2);
const cache = ComponentCache.open(directory, 300_000);
if (typeof cache === 'string') throw new Error(cache);

const empty = {
  coreModules: new Map(),
  imports: [],
  entry: 'run',
  lane: { kind: 'fast' },
  memories: [],
  tables: [],
} as const;
const names = ['a', 'b', 'c', 'd'];
const glueOf = (name: string) => name.repeat(100_000);
let wrong = 0;
let hits = 0;
const failed: string[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const name = names[(round + Number(seed)) % names.length] ?? '';
  const key = cacheKey(Buffer.from(name));
  const kept = cache.load(key);
  if (kept) hits++;
  if (kept && kept.glue !== glueOf(name)) wrong++;
  if (!kept) {
    const failure = cache.store(key, { ...empty, glue: glueOf(name) });
    if (failure) failed.push(failure);
  }
  if (round % 50 === 49) writeFileSync(join(directory, `${key}.component`), 'damaged', { mode: 0o600 });
}
process.stdout.write(JSON.stringify({ wrong, failed, hits }));
