import { describe } from 'vitest';
import { useEra } from './server-era.ts';

/** Runs tests that stand elsewhere with servers that speak the new era alone. */
export function runInNewEra(tests: Readonly<Record<string, () => Promise<unknown>>>): void {
  useEra('modern');
  for (const [file, load] of Object.entries(tests)) {
    describe(file, async () => {
      await load();
    });
  }
}
