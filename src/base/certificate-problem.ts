const untrusted = /^(?:CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT_)/;

/** Whether the code of an error says that a peer's certificate is not one to be trusted. */
export const isUntrustedCertificate = (code: string | undefined): boolean => untrusted.test(code ?? '');
