/** The code of an error of the system or of Node, such as `ENOENT`; also of an error from another realm. */
export function errorCode(error: unknown): string | undefined {
  const code: unknown = (error as { readonly code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** Message of a thrown value of any type. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const ERRNO = /^E[A-Z0-9]+$/;
/** Node's message about a thread that could not start ends with the code of the system error. */
const THREAD_NOT_STARTED = 'ERR_WORKER_INIT_FAILED';
/** Maximum length of a chain of causes; also ends a cyclic chain. */
const MAX_CAUSES = 8;

/** Errors of resources that may be exhausted temporarily. */
const exhausted = new Map([
  ['EMFILE', 'the process has no free file descriptor (RLIMIT_NOFILE)'],
  ['ENFILE', 'the system has no free file descriptor'],
  ['ENOMEM', 'the system has no free memory'],
  ['ENOSPC', 'the disk is full'],
  ['EDQUOT', 'the disk quota is exceeded'],
]);

/** Code of the system error in an error or its causes, such as `EMFILE`; null: none. */
export function systemErrorOf(error: unknown): string | null {
  for (let at = error, left = MAX_CAUSES; at != null && left > 0; left--) {
    const code = errorCode(at);
    if (code !== undefined && ERRNO.test(code)) return code;
    if (code === THREAD_NOT_STARTED) return /\b(E[A-Z0-9]+)$/.exec(String((at as Error).message))?.[1] ?? null;
    at = (at as { readonly cause?: unknown }).cause;
  }
  return null;
}

/** Describes the exhausted resource; null: the code has another meaning. */
export const exhaustedResource = (code: string | null): string | null => exhausted.get(code ?? '') ?? null;

const untrusted = /^(?:CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT_)/;

/** Whether an error code means that the peer's certificate is not trusted. */
export const isUntrustedCertificate = (code: string | undefined): boolean => untrusted.test(code ?? '');

const alert = /^ERR_SSL_.*(?:CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE)/;

/** Whether an error code means that the peer rejects or requires a client certificate. */
export const isCertificateAlert = (code: string | undefined): boolean => alert.test(code ?? '');

/** Suggests how to fix a server certificate that a client rejected; null: another error. */
export function certificateHint(code: string | undefined, server: string, caOption: string): string | null {
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return `its certificate has expired: renew the files that ${server} was given`;
    case 'CERT_NOT_YET_VALID':
      return 'its certificate is not valid yet: check the clocks of both machines';
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return 'its certificate is for another name: connect with the name that the certificate has';
  }
  return isUntrustedCertificate(code)
    ? `its certificate is not trusted: pass the CA that issued it with ${caOption}`
    : null;
}
