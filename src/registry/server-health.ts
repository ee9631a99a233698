import type { HealthCounts, HealthJson } from './console-api.ts';
import type { ServerView } from './node-reports.ts';

const worstFirst: readonly HealthJson[] = ['down', 'degraded', 'connected', 'idle'];

export function healthCounts(views: readonly Pick<ServerView, 'health'>[]): HealthCounts {
  const counts = { idle: 0, connected: 0, degraded: 0, down: 0 };
  for (const { health } of views) counts[health] += 1;
  return counts;
}

/** Null: nobody says anything. */
export function worstHealth(counts: HealthCounts): HealthJson | null {
  return worstFirst.find((health) => counts[health] > 0) ?? null;
}

export function meanLatencyMs(views: readonly Pick<ServerView, 'latencyMs'>[]): number | null {
  const known = views.flatMap(({ latencyMs }) => latencyMs ?? []);
  return known.length === 0 ? null : known.reduce((sum, ms) => sum + ms, 0) / known.length;
}
