import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { compileNats, queueAddress } from '../../../src/config/nats.ts';
import { openNats } from '../../../src/server/queue/nats/connect.ts';
import { NatsSetupError } from '../../../src/server/queue/nats/nats-errors.ts';
import { NatsQueue } from '../../../src/server/queue/nats/nats-queue.ts';
import { readSecretFile } from '../../../src/server/secrets/secret-file.ts';
import { newAuthority } from '../../support/certificates.ts';
import { natsAccounts } from '../../support/engines/nats-accounts.ts';
import { useNats } from '../../support/engines/use-engine.ts';
import { fastest } from '../../support/fastest.ts';
import { nextClaim } from './nats-clusters.ts';
import { newRun, success } from './queue-contract.ts';

/** Shorter than the timeout of a request. */
const AT_ONCE_MS = 4_000;

const folder = mkdtempSync(join(tmpdir(), 'spear-nats-security-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const authority = newAuthority();
const accounts = natsAccounts(['team-a', 'team-b'], ['without']);
const strangers = natsAccounts(['team-a']);

function written(name: string, text: string, mode = 0o600): string {
  const file = join(folder, name);
  writeFileSync(file, text, { mode });
  return file;
}

const server = authority.issue('nats');
const tls = `tls { cert_file: "${written('server.crt', server.cert)}", key_file: "${written('server.key', server.key)}" }`;
written('ca.pem', authority.cert);
written('other-ca.pem', newAuthority('another').cert);
written('a.creds', accounts.creds('team-a'));
written('b.creds', accounts.creds('team-b'));
written('without.creds', accounts.creds('without'));
written('stranger.creds', strangers.creds('team-a'));
written('expired.creds', accounts.creds('team-a', Math.floor(Date.now() / 1000) - 60));
written('broken.creds', 'SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY');

const nats = useNats({ members: 1, config: `${tls}\n${accounts.config}` });
const clients = newAuthority('of clients');
const [node, stranger] = [clients.issue('node'), newAuthority('of strangers').issue('node')];
written('node.crt', node.cert);
written('node.key', node.key);
written('stranger.crt', stranger.cert);
written('stranger.key', stranger.key);
const asking = tls.replace('}', `, ca_file: "${written('clients.pem', clients.cert)}", verify: true }`);
const verifying = useNats({ members: 1, config: asking });
const open: NatsQueue[] = [];
const statuses: string[] = [];
afterEach(async () => {
  for (const queue of open.splice(0)) await queue.close();
  statuses.length = 0;
});

/** As a node opens it whose config says so. */
async function queueOf(document: Parameters<typeof compileNats>[0], scheme = 'tls', at = nats): Promise<NatsQueue> {
  const file = { path: join(folder, 'config.toml'), folder };
  const compiled = compileNats({ patience_ms: 5_000, ...document }, file, { env: {}, readFile: readSecretFile });
  const url = `${scheme}://${at().members[0]?.address}`;
  const { servers, tls: wantsTls, replicas } = queueAddress(url, '--queue', compiled);
  const { creds, ca, identity, patienceMs } = compiled;
  const address = {
    servers,
    tls: wantsTls,
    ca,
    identity,
    creds,
    name: 'a test',
    silenceMs: 30_000,
    onStatus: (status: string) => statuses.push(status),
  };
  const queue = await openNats(address, (nc) =>
    NatsQueue.open(nc, { replicas, maxRuns: 100, leaseMs: 2_000, patienceMs, submitTimeoutMs: patienceMs }),
  );
  open.push(queue);
  return queue;
}

const failure = async (document: Parameters<typeof compileNats>[0], scheme?: string, at = nats) => {
  const error = await queueOf(document, scheme, at).then(
    () => new Error('it was let in'),
    (thrown: Error) => thrown,
  );
  // Nothing of a credentials file, which begins so.
  expect(error.message).not.toMatch(/SU[A-Z0-9]{10}|eyJ/);
  return error;
};

describe('a NATS server with TLS and accounts', () => {
  it('accepts clients with valid credentials over TLS with a trusted certificate [cluster.tls] [cluster.accounts]', async () => {
    const queue = await queueOf({ creds: 'file:a.creds', ca: 'ca.pem' });
    const { id } = (await queue.submit(newRun('r1', { input: Buffer.alloc(100_000, 'x') }))).run;
    const claim = await nextClaim(queue);
    expect(await queue.finish(claim, success('done'))).toBe(true);
    expect(Buffer.from((await queue.result(id)) ?? []).toString()).toBe('done');
    // Where it is asked for, it is spoken on loopback too, and to a server that would take less.
    await queueOf({ creds: 'file:a.creds', ca: 'ca.pem' }, 'nats');
  });

  it('keeps the runs of one account from another [cluster.accounts]', async () => {
    const [a, b] = await Promise.all([
      queueOf({ creds: 'file:a.creds', ca: 'ca.pem' }),
      queueOf({ creds: 'file:b.creds', ca: 'ca.pem' }),
    ]);
    await a.submit(newRun('only-a', { namespace: 'team-a' }));
    expect(await b.get('team-a', 'only-a')).toBeNull();
    expect((await b.list('team-a', { limit: 10 })).runs).toEqual([]);
    expect(await b.claim('n', 'default', 1, 2_000, () => true)).toEqual([]);
    // The same id is another run there.
    const other = newRun('only-a', { namespace: 'team-a', input: Buffer.from('another') });
    expect((await b.submit(other)).created).toBe(true);
    expect((await a.get('team-a', 'only-a'))?.input_bytes).not.toBe(other.input.byteLength);
    expect(Buffer.from((await b.input('only-a')) ?? []).toString()).toBe('another');
  });

  it.each([
    ['another authority', { creds: 'file:a.creds', ca: 'other-ca.pem' }, 'the server certificate is not trusted'],
    ['the authorities of the system', { creds: 'file:a.creds' }, 'set nats.ca to the CA that issued it'],
    ['no credentials', { ca: 'ca.pem' }, 'authentication is required; set nats.creds'],
    [
      'those of another operator',
      { creds: 'file:stranger.creds', ca: 'ca.pem' },
      'rejected the credentials in nats.creds',
    ],
    [
      'those whose time is over',
      { creds: 'file:expired.creds', ca: 'ca.pem' },
      'rejected the credentials in nats.creds',
    ],
    [
      'a file that holds none',
      { creds: 'file:broken.creds', ca: 'ca.pem' },
      'nats.creds: expected a NATS credentials file',
    ],
    [
      'a file of authorities that is not there',
      { creds: 'file:a.creds', ca: 'none.pem' },
      'none.pem cannot be read (ENOENT)',
    ],
    [
      'a file of authorities that holds none',
      { creds: 'file:a.creds', ca: 'broken.creds' },
      'the server certificate is not trusted',
    ],
    ['an account without JetStream', { creds: 'file:without.creds', ca: 'ca.pem' }, 'JetStream'],
  ])('refuses %s at once, and says what to fix without a secret [cluster.tls]', async (_, document, message) => {
    const ms = await fastest(AT_ONCE_MS, async () => {
      const error = await failure(document);
      expect(error.message).toContain(message);
      expect(error).toBeInstanceOf(NatsSetupError);
    });
    expect(ms).toBeLessThan(AT_ONCE_MS);
  });

  it.each([
    ['file:none.creds', 'nats.creds: '],
    ['file:open.creds', 'nats.creds: '],
  ])('is not asked with %s', async (creds, message) => {
    written('open.creds', accounts.creds('team-a'), 0o644);
    expect((await failure({ creds, ca: 'ca.pem' })).message).toContain(message);
  });

  it('takes renewed credentials when the time of those before is over, without a restart [cluster.accounts]', async () => {
    const seconds = () => Math.floor(Date.now() / 1000);
    written('short.creds', accounts.creds('team-a', seconds() + 8));
    const queue = await queueOf({ creds: 'file:short.creds', ca: 'ca.pem' });
    await queue.submit(newRun('before'));
    written('short.creds', accounts.creds('team-a', seconds() + 600));
    await expect.poll(() => statuses).toEqual(['disconnect', 'reconnect']);
    expect((await queue.submit(newRun('after'))).created).toBe(true);
    expect((await queue.get('default', 'before'))?.status).toBe('queued');
  });
});

describe('a NATS server without the permissions that the queue needs', () => {
  const strict = useNats({
    members: 1,
    config: 'authorization { users: [{ user: u, password: p, permissions: { publish: "only" } }] }\nno_auth_user: u',
  });

  it('is not waited for: what was forbidden is said at once [cluster.tls]', async () => {
    const ms = await fastest(AT_ONCE_MS, async () => {
      const error = await failure({}, 'nats', strict);
      expect(error).toBeInstanceOf(NatsSetupError);
      expect(error.message).toContain('Permissions Violation for Publish to "$JS.API.INFO"');
    });
    expect(ms).toBeLessThan(AT_ONCE_MS);
  });
});

describe('a NATS server that asks for certificates', () => {
  const known = { ca: 'ca.pem', cert: 'node.crt', key: 'node.key' };

  it('accepts a trusted client certificate, and a renewed one without a restart [cluster.tls]', async () => {
    const queue = await queueOf(known, 'tls', verifying);
    await queue.submit(newRun('before'));
    const renewed = clients.issue('node');
    written('node.crt', renewed.cert);
    written('node.key', renewed.key);
    const [member] = verifying().members;
    await member?.kill();
    await member?.start();
    await expect.poll(() => statuses.at(-1)).toBe('reconnect');
    expect((await queue.get('default', 'before'))?.status).toBe('queued');
    expect((await queue.submit(newRun('after'))).created).toBe(true);
  });

  it.each([
    ['none', { ca: 'ca.pem' }, 'a client certificate is required; set nats.cert and nats.key'],
    [
      'one of another authority',
      { ca: 'ca.pem', cert: 'stranger.crt', key: 'stranger.key' },
      'the server rejected the client certificate',
    ],
    [
      'the key of another',
      { ca: 'ca.pem', cert: 'node.crt', key: 'stranger.key' },
      'is not the key of the certificate',
    ],
    ['a file that is no certificate', { ca: 'ca.pem', cert: 'a.creds', key: 'node.key' }, 'expected PEM files'],
    ['one that is not there', { ca: 'ca.pem', cert: 'none.crt', key: 'node.key' }, 'none.crt cannot be read (ENOENT)'],
    ['a key that others can read', { ca: 'ca.pem', cert: 'node.crt', key: 'open.key' }, 'run: chmod 600'],
  ])('refuses %s at once, and says what to fix [cluster.tls]', async (_, document, message) => {
    written('open.key', node.key, 0o644);
    const ms = await fastest(AT_ONCE_MS, async () => {
      const error = await failure(document, 'tls', verifying);
      expect(error.message).toContain(message);
      expect(error).toBeInstanceOf(NatsSetupError);
    });
    expect(ms).toBeLessThan(AT_ONCE_MS);
  });

  it('is not asked with a certificate without its key', () => {
    const file = { path: join(folder, 'config.toml'), folder };
    const compile = () => compileNats({ cert: 'node.crt' }, file, { env: {}, readFile: readSecretFile });
    expect(compile).toThrow('nats: cert and key must be set together');
  });
});
