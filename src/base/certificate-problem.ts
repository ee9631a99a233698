const untrusted = /^(?:CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT_)/;

/** Whether the code of an error says that a peer's certificate is not one to be trusted. */
export const isUntrustedCertificate = (code: string | undefined): boolean => untrusted.test(code ?? '');

const alert = /^ERR_SSL_.*(?:CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE)/;

/** Whether it says that the peer does not take the certificate that it was shown, or wants one. */
export const isCertificateAlert = (code: string | undefined): boolean => alert.test(code ?? '');
