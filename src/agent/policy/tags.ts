import type { McpServerRecord } from '../../server/records/server.ts';

/** The first of the wanted tags that a server has. */
export function sharedTag(wanted: readonly string[], { tags }: McpServerRecord): string | null {
  return wanted.find((tag) => tags.includes(tag)) ?? null;
}
