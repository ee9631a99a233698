import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { CORE_START_LIMIT, measureStartUp } from '../../bench/topics/start.ts';
import { root } from './spear-run.ts';

const ROUNDS = 15;
/** A machine that is busy with other things tells little in one go; a slow start is slow every time. */
const TRIES = 8;

it('hello costs at most three times an empty Node [cli.start-up]', { timeout: 300_000 }, () => {
  expect(CORE_START_LIMIT).toBe(3);
  const seen: string[] = [];
  let best = Number.POSITIVE_INFINITY;
  for (let tried = 0; tried < TRIES && best > CORE_START_LIMIT; tried++) {
    const { ratio, fastestRatio } = measureStartUp(ROUNDS);
    best = Math.min(best, ratio, fastestRatio);
    seen.push(`${ratio.toFixed(2)} (of the fastest runs ${fastestRatio.toFixed(2)})`);
  }
  process.stderr.write(`spear-run hello / node -e 0: ${seen.join('; ')}\n`);
  expect(best, seen.join('; ')).toBeLessThanOrEqual(CORE_START_LIMIT);
});

it('nothing of another package is read before a guest needs it [cli.start-up]', () => {
  const read = new Set<string>();
  const visit = (file: string) => {
    if (read.has(file)) return;
    read.add(file);
    const text = readFileSync(join(root, 'dist', file), 'utf8');
    expect(text.match(/^\/\/ node_modules\/.*/gm), file).toBeNull();
    for (const [, name = ''] of text.matchAll(/^(?:const|let|var) \w+ = require\("([^"]+)"\)/gm)) {
      if (name.startsWith('./')) visit(name.slice(2));
      else expect(name, file).toMatch(/^node:/);
    }
  };
  const entry = readFileSync(join(root, 'dist/spear-run.cjs'), 'utf8');
  // It imports the rest as soon as the guest's thread boots.
  const [command] = [...entry.matchAll(/=> require\("\.\/(spear-run-main-[^"]+)"\)/g)].map(([, file]) => file);
  visit('spear-run.cjs');
  visit(String(command));
  const main = readFileSync(join(root, 'dist', String(command)), 'utf8');
  for (const [, file = ''] of main.matchAll(/=> require\("\.\/(spear-run-command-(?!help)[^"]+)"\)/g)) visit(file);
  expect(read.size).toBeGreaterThan(2);
});
