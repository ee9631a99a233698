import { X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { connect } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CHECK_INTERVAL_MS } from '../../../src/server/http/served-certificate.ts';
import { runningNode } from '../../node/running-node.ts';
import { startTestSms, stopAll } from '../../registry/running-sms.ts';
import { type Certificate, selfSigned } from '../../support/certificates.ts';

const DAY_MS = 86_400_000;
let folder = '';

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'spear-served-certificate-'));
  // Sockets are real; only the interval between two looks at the files is not waited for.
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
});
afterEach(async () => {
  vi.useRealTimers();
  await stopAll();
  rmSync(folder, { recursive: true, force: true });
});

const files = () => ({ cert: join(folder, 'served.crt'), key: join(folder, 'served.key') });
function write({ cert, key }: Certificate): Certificate {
  writeFileSync(files().cert, cert);
  writeFileSync(files().key, key, { mode: 0o600 });
  return { cert, key };
}

/** What a new client is shown at `HOST:PORT` or a URL. */
function shown(address: string, alpn: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const port = Number(address.split(':').at(-1));
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ALPNProtocols: [alpn] }, () => {
      resolve(socket.getPeerX509Certificate()?.fingerprint256 ?? '');
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

/** When the certificate ends, by the metrics that a client with this certificate reads. */
async function expiryMetric(url: string, { cert: ca }: Certificate, metric: string): Promise<number> {
  const page = await new Promise<string>((resolve, reject) => {
    get(`${url}/metrics`, { ca, agent: false }, (answer) => resolve(text(answer))).once('error', reject);
  });
  return Number(new RegExp(`^${metric}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(page)?.[1]);
}

const fingerprint = ({ cert }: Certificate) => new X509Certificate(cert).fingerprint256;
const expiryS = ({ cert }: Certificate) => Date.parse(new X509Certificate(cert).validTo) / 1_000;

describe('the listeners of a service', () => {
  it('of a registry present a renewed certificate without a signal, and metrics show its expiry [tls.renewal]', async () => {
    const metric = 'spear_sms_certificate_expiry_timestamp_seconds';
    const first = write(selfSigned(30 * DAY_MS));
    const { sms, logged } = await startTestSms({ tls: files() });
    const all = () => Promise.all([shown(sms.grpc, 'h2'), shown(sms.http, 'http/1.1')]);
    expect(await all()).toEqual([fingerprint(first), fingerprint(first)]);
    expect(await expiryMetric(sms.http, first, metric)).toBe(expiryS(first));

    const renewed = write(selfSigned(90 * DAY_MS));
    expect(await all()).toEqual([fingerprint(first), fingerprint(first)]);
    vi.advanceTimersByTime(CHECK_INTERVAL_MS);
    expect(await all()).toEqual([fingerprint(renewed), fingerprint(renewed)]);
    expect(logged.join('\n')).toContain('info certificate_reloaded');
    // Collected metrics are shared for a moment.
    await expect.poll(() => expiryMetric(sms.http, renewed, metric)).toBe(expiryS(renewed));
  });

  it('of a node present a renewed certificate without a signal, and metrics show its expiry [tls.renewal]', async () => {
    const metric = 'spearlet_certificate_expiry_timestamp_seconds';
    const first = write(selfSigned(30 * DAY_MS));
    const { cert, key } = files();
    const { url } = await runningNode(`[node.tls]\ncert = "${cert}"\nkey = "${key}"\n`);
    expect(await shown(url, 'http/1.1')).toBe(fingerprint(first));
    expect(await expiryMetric(url, first, metric)).toBe(expiryS(first));

    const renewed = write(selfSigned(90 * DAY_MS));
    vi.advanceTimersByTime(CHECK_INTERVAL_MS);
    expect(await shown(url, 'http/1.1')).toBe(fingerprint(renewed));
    expect(await expiryMetric(url, renewed, metric)).toBe(expiryS(renewed));
  });
});
