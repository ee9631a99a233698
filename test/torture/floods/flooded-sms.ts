import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { selfSigned } from '../../support/certificates.ts';
import { connectTo } from '../registry/sms-client.ts';
import { SmsLives } from '../registry/sms-life.ts';
import type { Failures } from '../topic.ts';
import type { Target } from './ground.ts';

const RECORDS = 200;
const ARGUMENTS = 8;
const ARGUMENT_LENGTH = 4_000;

export interface FloodedSms {
  readonly lives: SmsLives;
  /** For a flood from that address. */
  target(from: string): Target;
  /** The socket that it serves its own user on. */
  readonly socketPath: string;
  close(): Promise<void>;
}

/** A registry of some size, in clear or with TLS. */
export async function startFloodedSms(failures: Failures, isSecure: boolean): Promise<FloodedSms> {
  const directory = mkdtempSync(join(tmpdir(), 'spear-torture-'));
  const lives = new SmsLives({ directory, failures, args: isSecure ? tlsArgs(directory) : [] });
  await lives.start();
  const token = (name: string) => readFileSync(join(directory, `${name}.token`), 'utf8').trim();
  const portOf = (address: string) => Number(address.split(':').at(-1));
  const { grpc, http } = lives.addresses;
  if (!isSecure) await fill(lives, token('admin'));
  return {
    lives,
    target: (from) => ({ grpcPort: portOf(grpc), httpPort: portOf(http), from, nodeToken: token('node') }),
    socketPath: join(directory, 'sockets', 'http.sock'),
    async close() {
      await lives.kill();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function tlsArgs(directory: string): string[] {
  const { key, cert } = selfSigned();
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') };
  writeFileSync(files.cert, cert);
  writeFileSync(files.key, key, { mode: 0o600 });
  return ['--tls-cert', files.cert, '--tls-key', files.key];
}

/** Something to list. */
async function fill(lives: SmsLives, token: string): Promise<void> {
  const client = connectTo(lives.addresses, token);
  const args = Array.from({ length: ARGUMENTS }, () => 'y'.repeat(ARGUMENT_LENGTH));
  const servers = Array.from({ length: RECORDS }, (_, index) => ({
    server_id: `server-${index}`,
    transport: 'stdio',
    stdio: { command: 'x', args },
  }));
  const path = '/admin/api/mcp/servers/import';
  const { plan } = JSON.parse((await client.http('POST', path, servers)).text) as { plan: string };
  await client.http('POST', `${path}?apply=${plan}`, servers);
  client.close();
}
