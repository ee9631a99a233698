import { errorCode } from '../../base/errors.ts';
import type { CompiledAudit } from '../../config/audit.ts';
import { type AuditSink, noAudit } from '../../server/audit/event.ts';
import { UsageError } from '../exit-codes.ts';
import type { AuditFlags } from './flags.ts';

const STDOUT = '-';
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Whether the audit log goes to stdout. */
export function auditsToStdout({ audit, json }: Pick<AuditFlags, 'audit'> & { readonly json: boolean }): boolean {
  const isStdout = audit === STDOUT;
  if (isStdout && json) {
    throw new UsageError(`--audit ${audit} and --json both write to stdout; pass a file to --audit`);
  }
  return isStdout;
}

/** The audit log of the command line, else of the host config. */
export async function openRunAudit(
  flags: AuditFlags & { readonly dryRun: boolean; readonly json: boolean },
  config: CompiledAudit,
  task: string | null,
  closers: (() => unknown)[],
  say: (text: string) => void,
): Promise<AuditSink> {
  const toStdout = auditsToStdout(flags);
  const path = flags.audit ?? config.file;
  if (path === null) warnWithoutAudit(flags, say);
  if (path === null || flags.dryRun) return noAudit;
  const name = flags.audit === undefined ? `audit.file ${path}` : `--audit ${path}`;
  const key = config.key?.().reveal() ?? null;
  const { openAuditLog } = await import('../../server/audit/log.ts');
  try {
    const log = openAuditLog({
      path: toStdout ? null : path,
      args: flags.auditArgs ?? config.args,
      maxBytes: flags.auditMaxBytes ?? config.maxBytes,
      keep: flags.auditKeep ?? config.keep,
      failureMode: config.onFailure,
      key,
      onFailure: (code) => say(`${name}: audit events are lost, writing failed (${code})`),
    });
    const release = flushBeforeSignals(() => log.flushNow());
    closers.push(async () => {
      await log.close();
      release();
    });
    return log.forTask(task);
  } catch (error) {
    throw new UsageError(`${name}: cannot be written (${errorCode(error)})`);
  }
}

function warnWithoutAudit({ auditArgs, auditMaxBytes, auditKeep }: AuditFlags, say: (text: string) => void): void {
  const given = { '--audit-args': auditArgs, '--audit-max-bytes': auditMaxBytes, '--audit-keep': auditKeep };
  for (const [flag, value] of Object.entries(given)) {
    if (value !== undefined) say(`${flag} has no effect without --audit FILE`);
  }
}

/** Flushes the audit log before a signal without another handler ends the process. */
function flushBeforeSignals(flush: () => void): () => void {
  const release = () => {
    for (const signal of signals) process.off(signal, handler);
  };
  const handler = (signal: NodeJS.Signals) => {
    if (process.listenerCount(signal) > 1) return;
    flush();
    release();
    process.kill(process.pid, signal);
  };
  for (const signal of signals) process.on(signal, handler);
  return release;
}
