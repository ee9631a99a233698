import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { McpRegistryService } from '../../src/generated/proto/sms/mcp_registry_pb.ts';
import type { McpServerRecord } from '../../src/server/records/server.ts';
import { recordToWire } from '../../src/server/records/wire.ts';
import { makeLargeRegistry } from '../../test/registry/large-registry.ts';

const command = fileURLToPath(new URL('../../src/cli/sms/entry.ts', import.meta.url));

export interface SmsProcess {
  /** Its address. */
  readonly grpc: string;
  readonly nodeToken: string;
  /** Writes a record as an administrator does; gives the revision. */
  upsert(record: McpServerRecord): Promise<number>;
  close(): Promise<void>;
}

/** `spear-sms` in a process of its own, on a file with many records, or on what else `args` say. */
export async function openSms(records: number, args: readonly string[] = []): Promise<SmsProcess> {
  const directory = mkdtempSync(join(tmpdir(), 'spear-bench-'));
  const data = join(directory, 'registry.db');
  await makeLargeRegistry(data, records);
  const loopback = ['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0'];
  const sms = spawn(process.execPath, [command, ...loopback, '--data', data, ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const ended = once(sms, 'exit');
  const [line] = (await Promise.race([
    once(createInterface(sms.stdout), 'line'),
    ended.then(([code]) => Promise.reject(new Error(`spear-sms ended with ${code}`))),
  ])) as [string];
  const { grpc } = JSON.parse(line) as { grpc: string };
  const token = (name: string) => readFileSync(join(directory, `${name}.token`), 'utf8').trim();
  const adminToken = token('admin');
  const transport = createGrpcTransport({
    baseUrl: `http://${grpc}`,
    interceptors: [
      (next) => (request) => {
        request.header.set('authorization', `Bearer ${adminToken}`);
        return next(request);
      },
    ],
  });
  const client = createClient(McpRegistryService, transport);
  return {
    grpc,
    nodeToken: token('node'),
    async upsert(record) {
      const { revision } = await client.upsertMcpServer({ record: recordToWire(record) });
      return Number(revision);
    },
    async close() {
      sms.kill('SIGTERM');
      await ended;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
