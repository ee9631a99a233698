import { errorCode } from '../../base/errors.ts';
import { version } from '../../base/version.ts';
import type { RegistryAuditConfig } from '../../config/registry/registry-config.ts';
import type { ServiceLog } from '../log/service-log.ts';
import type { AuditCaller, AuditEvent } from './event.ts';
import { type AuditLog, openAuditLog, type ServiceTrail } from './log.ts';

/** What a registry's own trail is told. */
export interface SmsTrail {
  write(event: AuditEvent): void;
  /** A request that was answered with an error. `isChange`: it asked for more than to read. */
  refused(caller: AuditCaller, refusal: Refusal, isChange: boolean): void;
  /** Whether a write may be made: false if the config wants its line first and the line cannot be written. */
  allowsWrite(announcement: () => AuditEvent): Promise<boolean>;
  close(): Promise<void>;
}

export interface Refusal {
  readonly code: string;
  readonly reason: string;
  /** The caller may not, whatever they ask for. */
  readonly isDenial: boolean;
}

export const noTrail: SmsTrail = {
  write: () => {},
  refused: () => {},
  allowsWrite: async () => true,
  close: async () => {},
};

/**
 * Opens the trail that the config asks for. A file that cannot be opened is said, and costs the start only where no
 * write is to be made without its line.
 */
export function openSmsTrail(audit: RegistryAuditConfig | null, log: ServiceLog): SmsTrail {
  if (audit === null) return noTrail;
  const { file, maxBytes, keep, onFailure: failureMode } = audit;
  const key = audit.key?.().reveal() ?? null;
  const fail = (code: string) => log('error', 'audit_failed', { file, code });
  try {
    return new OpenTrail(openAuditLog({ path: file, maxBytes, keep, failureMode, key, version, onFailure: fail }));
  } catch (error) {
    const code = errorCode(error) ?? String(error);
    if (failureMode === 'refuse') throw new Error(`audit.file: ${file} cannot be written (${code})`);
    fail(code);
    return noTrail;
  }
}

class OpenTrail implements SmsTrail {
  readonly #log: AuditLog;
  readonly #trail: ServiceTrail;

  constructor(log: AuditLog) {
    this.#log = log;
    this.#trail = log.forService();
  }

  write(event: AuditEvent): void {
    this.#trail.write(event);
  }

  refused(caller: AuditCaller, { code, reason, isDenial }: Refusal, isChange: boolean): void {
    if (!isDenial && !isChange) return; // who may read and asks for what is not there leaves nothing behind
    this.write({ event: 'sms.refused', ...caller, status: isDenial ? 'denied' : 'failed', code, reason });
  }

  async allowsWrite(announcement: () => AuditEvent): Promise<boolean> {
    const { written } = this.#trail;
    if (written === undefined) return true;
    this.write(announcement());
    return written();
  }

  close(): Promise<void> {
    return this.#log.close();
  }
}
