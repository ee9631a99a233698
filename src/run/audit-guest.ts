import { type AuditSink, noAudit } from '../server/audit/event.ts';

/** Tells that a guest begins, as soon as its bytes are there: before it can do anything. */
export function auditGuestStart(
  audit: AuditSink,
  run: string,
  module: string,
  wasm: Uint8Array | Promise<Uint8Array>,
): void {
  if (audit === noAudit) return; // nobody reads the digest
  const tell = (module_sha256: string | null) => audit.write(run, { event: 'guest.started', module, module_sha256 });
  Promise.resolve(wasm).then(
    // Loaded here: a run without a trail starts sooner without it.
    (bytes) => tell(process.getBuiltinModule('node:crypto').hash('sha256', bytes)),
    () => tell(null),
  );
}
