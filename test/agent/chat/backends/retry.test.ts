import { expect, it } from 'vitest';
import { backoff, retryDelayMs } from '../../../../src/agent/chat/backends/failures.ts';

it('the backoff doubles up to its ceiling, half of it random [chat.backend.retry]', () => {
  const shortest = Array.from({ length: 7 }, (_, attempt) => retryDelayMs(attempt, undefined, { random: () => 0 }));
  const longest = Array.from({ length: 7 }, (_, attempt) => retryDelayMs(attempt, undefined, { random: () => 1 }));
  expect(shortest).toEqual([250, 500, 1000, 2000, 4000, 4000, 4000]);
  expect(longest).toEqual(shortest.map((ms) => ms * 2));
  expect(longest[0]).toBe(backoff.firstMs);
  expect(longest.at(-1)).toBe(backoff.maxMs);
});

it('Retry-After lengthens the wait and never shortens it', () => {
  expect(retryDelayMs(0, 5000, { random: () => 1 })).toBe(5000);
  expect(retryDelayMs(0, 100, { random: () => 1 })).toBe(backoff.firstMs);
});
