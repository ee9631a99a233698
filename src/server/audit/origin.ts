import { hostname, userInfo } from 'node:os';
import type { AuditWriterOptions } from './writer.ts';

/** This process, as its trail names it. */
export function originOf(version: string): AuditWriterOptions['origin'] {
  return { pid: process.pid, spear: version, host: hostname(), user: userName(), uid: process.geteuid?.() ?? null };
}

/** In a container the number of a user often has no name. */
function userName(): string | null {
  try {
    return userInfo().username;
  } catch {
    return null;
  }
}
