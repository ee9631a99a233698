import { expect, it } from 'vitest';
import { BACKOFF_BASE_MS, MAX_BACKOFF_MS, retryDelayMs } from '../../../src/chat/backends/retry.ts';

it('the backoff doubles up to its ceiling, half of it random [chat.backend.retry]', () => {
  const shortest = Array.from({ length: 7 }, (_, attempt) => retryDelayMs(attempt, undefined, () => 0));
  const longest = Array.from({ length: 7 }, (_, attempt) => retryDelayMs(attempt, undefined, () => 1));
  expect(shortest).toEqual([250, 500, 1000, 2000, 4000, 4000, 4000]);
  expect(longest).toEqual(shortest.map((ms) => ms * 2));
  expect(longest[0]).toBe(BACKOFF_BASE_MS);
  expect(longest.at(-1)).toBe(MAX_BACKOFF_MS);
});

it('Retry-After lengthens the wait and never shortens it', () => {
  expect(retryDelayMs(0, 5000, () => 1)).toBe(5000);
  expect(retryDelayMs(0, 100, () => 1)).toBe(BACKOFF_BASE_MS);
});
