import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { selfSigned } from '../support/certificates.ts';
import { NodeLives, writeNodeFolder } from '../torture/node/node-life.ts';

let folder = '';
let node: NodeLives | null = null;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'spear-node-tls-'));
});
afterEach(async () => {
  await node?.kill();
  node = null;
  rmSync(folder, { recursive: true, force: true });
});

/** Any address of this machine. */
const everywhere = ['--listen', '0.0.0.0:0'];

function health(url: string, ca: string): Promise<number> {
  return new Promise((resolve, reject) => {
    get(`${url}/healthz`, { ca, checkServerIdentity: () => undefined }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    }).once('error', reject);
  });
}

function fingerprint(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.end();
    }).once('error', reject);
  });
}

describe('a node beyond loopback', () => {
  it('does not start in clear [node.tls]', async () => {
    writeNodeFolder(folder);
    await expect(new NodeLives(folder, everywhere).start()).rejects.toThrow('[node.tls] cert and key');
  });

  it('speaks TLS with its certificate, and takes a renewed one at SIGHUP [node.tls]', async () => {
    writeNodeFolder(folder, { node: 'tls = { cert = "node.crt", key = "node.key" }' });
    const renew = () => {
      const made = selfSigned();
      writeFileSync(join(folder, 'node.crt'), made.cert);
      writeFileSync(join(folder, 'node.key'), made.key, { mode: 0o600 });
    };
    renew();
    node = new NodeLives(folder, everywhere);
    await node.start();
    const port = Number(new URL(node.url).port);
    expect(node.url).toMatch(/^https:/);
    expect(await health(`https://127.0.0.1:${port}`, readFileSync(join(folder, 'node.crt'), 'utf8'))).toBe(200);
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow();
    const before = await fingerprint(port);
    renew();
    node.signal('SIGHUP');
    await expect.poll(() => fingerprint(port)).not.toBe(before);
  });
});
