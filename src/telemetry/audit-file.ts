import { closeSync, openSync, writeSync } from 'node:fs';
import { AUDIT_VERSION, type AuditEvent, type AuditTrail } from './audit-event.ts';

/**
 * Appends the trail to a file, one JSON object a line. Written at once: the line about a call is on disk before its
 * answer is used, and none is lost when the process dies. A line that cannot be written is lost; `onFailure` hears of
 * the first.
 * @throws the error of the system, if the file cannot be opened
 */
export function openAuditFile(
  path: string,
  onFailure: (error: NodeJS.ErrnoException) => void,
): AuditTrail & { close(): void } {
  const fd = openSync(path, 'a', 0o600);
  let failed = false;
  let torn = false;

  const append = (line: string) => {
    const bytes = Buffer.from(torn ? `\n${line}` : line);
    let written = 0;
    try {
      // One write a line as long as the system takes it whole: several runs may append to one file.
      while (written < bytes.byteLength) written += writeSync(fd, bytes, written);
      torn = false;
    } catch (error) {
      torn ||= written > 0;
      if (!failed) onFailure(error as NodeJS.ErrnoException);
      failed = true;
    }
  };

  return {
    write: (run: string, event: AuditEvent) =>
      append(`${JSON.stringify({ v: AUDIT_VERSION, time: new Date().toISOString(), run, ...event })}\n`),
    close: () => closeSync(fd),
  };
}
