import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CHECK_INTERVAL_MS, ServedCertificate } from '../../../src/server/http/served-certificate.ts';
import { type Certificate, selfSigned } from '../../support/certificates.ts';

const DAY_MS = 86_400_000;
let folder = '';
let open: ServedCertificate | null = null;

beforeEach(() => {
  vi.useFakeTimers();
  folder = mkdtempSync(join(tmpdir(), 'spear-certificate-'));
});
afterEach(() => {
  open?.close();
  open = null;
  vi.useRealTimers();
  rmSync(folder, { recursive: true, force: true });
});

const files = () => ({ cert: join(folder, 'node.crt'), key: join(folder, 'node.key') });
const write = ({ cert, key }: Partial<Certificate>) => {
  if (cert !== undefined) writeFileSync(files().cert, cert);
  if (key !== undefined) writeFileSync(files().key, key, { mode: 0o600 });
};

function serve(made: Certificate) {
  write(made);
  const logged: string[] = [];
  const served: string[] = [];
  const certificate = new ServedCertificate(files(), (_, event) => void logged.push(event));
  open = certificate;
  certificate.onRenewed = ({ cert }) => void served.push(cert);
  return { certificate, logged, served };
}

describe('a certificate that is served', () => {
  it('is replaced by a renewed certificate without a signal [tls.renewal]', () => {
    const { certificate, served, logged } = serve(selfSigned(90 * DAY_MS));
    const renewed = selfSigned(180 * DAY_MS);
    vi.advanceTimersByTime(CHECK_INTERVAL_MS);
    expect(served).toEqual([]);
    write(renewed);
    vi.advanceTimersByTime(CHECK_INTERVAL_MS);
    expect([served, logged, certificate.tls]).toEqual([[renewed.cert], ['certificate_reloaded'], renewed]);
    expect(certificate.expiresAtMs).toBeGreaterThan(Date.now() + 179 * DAY_MS);
  });

  it('stays until both files of a renewal are written', () => {
    const first = selfSigned(90 * DAY_MS);
    const { certificate, served, logged } = serve(first);
    const renewed = selfSigned(90 * DAY_MS);
    write({ cert: renewed.cert });
    vi.advanceTimersByTime(3 * CHECK_INTERVAL_MS);
    expect([served, logged, certificate.tls]).toEqual([[], ['certificate_not_reloaded'], first]);
    write({ key: renewed.key });
    vi.advanceTimersByTime(CHECK_INTERVAL_MS);
    expect(served).toEqual([renewed.cert]);
  });

  it('is reloaded once its files are readable, with one log line until then [tls.renewal]', () => {
    const { served, logged } = serve(selfSigned(90 * DAY_MS));
    const renewed = selfSigned(180 * DAY_MS);
    chmodSync(files().key, 0o644); // a key that others may read is refused
    write(renewed);
    vi.advanceTimersByTime(3 * CHECK_INTERVAL_MS);
    expect([served, logged]).toEqual([[], ['certificate_not_reloaded']]);
    chmodSync(files().key, 0o600);
    vi.advanceTimersByTime(CHECK_INTERVAL_MS);
    expect([served, logged]).toEqual([[renewed.cert], ['certificate_not_reloaded', 'certificate_reloaded']]);
  });

  it('does not start if it has expired, and does not replace a valid one [tls.renewal]', () => {
    write(selfSigned(-1_000));
    expect(() => new ServedCertificate(files(), () => {})).toThrow(/--tls-cert: .*node\.crt expired at .*: renew/);
    const { certificate, served } = serve(selfSigned(90 * DAY_MS));
    write(selfSigned(-1_000));
    vi.advanceTimersByTime(CHECK_INTERVAL_MS);
    expect(served).toEqual([]);
    expect(certificate.expiresAtMs).toBeGreaterThan(Date.now());
  });

  it('is reported once a day from 14 days before its expiry [tls.renewal]', () => {
    const { logged } = serve(selfSigned(15 * DAY_MS));
    expect(logged).toEqual([]);
    vi.advanceTimersByTime(DAY_MS + CHECK_INTERVAL_MS);
    expect(logged).toEqual(['certificate_expires']);
    vi.advanceTimersByTime(DAY_MS - 2 * CHECK_INTERVAL_MS);
    expect(logged).toHaveLength(1);
    vi.advanceTimersByTime(3 * CHECK_INTERVAL_MS);
    expect(logged).toHaveLength(2);
  });
});
