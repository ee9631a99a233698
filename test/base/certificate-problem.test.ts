import { expect, it } from 'vitest';
import { certificateHint } from '../../src/base/certificate-problem.ts';

it.each([
  ['CERT_HAS_EXPIRED', 'has expired: renew the files that spearlet'],
  ['CERT_NOT_YET_VALID', 'check the clocks'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'for another name'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'pass the CA that issued it with --ca'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'pass the CA that issued it with --ca'],
])('%s has a hint of its own, and no question whether the server runs [tls.renewal]', (code, hint) => {
  expect(certificateHint(code, 'spearlet', '--ca')).toContain(hint);
});

it.each(['ECONNREFUSED', undefined])('%s is no error of a certificate', (code) => {
  expect(certificateHint(code, 'spearlet', '--ca')).toBeNull();
});
