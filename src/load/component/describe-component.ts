import type { PreparedComponent } from './prepared.ts';

/** One line for whoever wants to know how a component runs. */
export function describeComponent({ lane, origin }: Pick<PreparedComponent, 'lane' | 'origin'>): string {
  const how = lane.kind === 'fast' ? 'fast lane' : `jco glue, because ${lane.reason}`;
  return `component: ${how}; ${origin.cached ? 'cached' : 'compiled now'}, ${origin.ms} ms`;
}
