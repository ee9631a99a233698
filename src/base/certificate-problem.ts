const untrusted = /^(?:CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|ERR_TLS_CERT_)/;

/** Whether the code of an error says that a peer's certificate is not one to be trusted. */
export const isUntrustedCertificate = (code: string | undefined): boolean => untrusted.test(code ?? '');

const alert = /^ERR_SSL_.*(?:CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE)/;

/** Whether it says that the peer does not take the certificate that it was shown, or wants one. */
export const isCertificateAlert = (code: string | undefined): boolean => alert.test(code ?? '');

/** What to do about the certificate of a server that a client does not accept; null: the error is another. */
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
