import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

it('measures the way of a change from the writer to the caches, and misses none [sms.latency.bench]', async () => {
  const bench = fileURLToPath(new URL('../../bench/sms.ts', import.meta.url));
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [bench, '--quick'], { timeout: 110_000 });
  expect(stderr).toBe('');
  expect(stdout).toMatch(/^visible in a cache +p50 [\d.]+ ms +p99 [\d.]+ ms/m);
}, 120_000);
