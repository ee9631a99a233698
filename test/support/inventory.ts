import { readdirSync } from 'node:fs';

/** What of this process could be left behind by a run. */
export function inventory(): Record<string, unknown> {
  const resources: Record<string, number> = {};
  for (const resource of process.getActiveResourcesInfo()) resources[resource] = (resources[resource] ?? 0) + 1;
  return {
    resources,
    threads: readdirSync('/proc/self/task').length,
    files: readdirSync('/proc/self/fd').length,
    listeners: process
      .eventNames()
      .map((name) => `${String(name)} ${process.listenerCount(name)}`)
      .sort(),
  };
}
