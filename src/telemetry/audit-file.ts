import { openSync } from 'node:fs';
import { pino } from 'pino';
import { AUDIT_VERSION, type AuditEvent, type AuditTrail } from './audit-event.ts';

/**
 * Appends the trail to a file, one JSON object a line. Written at once: the line about a call is on disk before its
 * answer is used, and none is lost when the process dies.
 */
export function openAuditFile(path: string): AuditTrail & { close(): void } {
  const destination = pino.destination({ dest: openSync(path, 'a', 0o600), sync: true });
  const lines = pino(
    {
      base: null,
      formatters: { level: () => ({ v: AUDIT_VERSION }) },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
    },
    destination,
  );
  return {
    write: (run: string, event: AuditEvent) => lines.info({ run, ...event }),
    close: () => destination.end(),
  };
}
