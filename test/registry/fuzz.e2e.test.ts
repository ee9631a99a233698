import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { UpsertMcpServerRequestSchema } from '../../src/generated/proto/sms/mcp_registry_pb.ts';
import { parseRecord } from '../../src/server/records/server.ts';
import { OriginalClient } from './original-client.ts';
import { fsRecord, startTestSms, stopAll, type TestSms } from './running-sms.ts';

let sms: TestSms;

beforeAll(async () => {
  sms = await startTestSms();
  await sms.http('POST', servers, { json: fsRecord });
});
afterAll(stopAll);

/** Nothing of what came before was stored, nothing was logged as a failure of ours, and the server still works. */
beforeEach(() => async () => {
  expect((await sms.http('GET', servers)).body).toMatchObject({ revision: 1, servers: [{ server_id: 'fs' }] });
  expect(sms.logged.filter((line) => line.startsWith('error'))).toEqual([]);
  const client = new OriginalClient(sms.sms.grpc, sms.nodeToken);
  expect(await client.call('ListMcpServers')).toMatchObject({ revision: 1 });
});

const servers = '/admin/api/mcp/servers';
const RUNS = 150;

describe('HTTP', () => {
  const headers = () => ({ 'content-type': 'application/json', authorization: `Bearer ${sms.adminToken}` });

  it('answers any text with an error', async () => {
    const body = fc.oneof(fc.string({ unit: 'binary' }), fc.json(), fc.constantFrom('[', '{"a":', 'null', '[]', '7'));
    const path = fc.constantFrom(`POST ${servers}`, `PUT ${servers}/fs`, `POST ${servers}/import`);
    await fc.assert(
      fc.asyncProperty(body, path, async (text, target) => {
        const [method = '', url = ''] = target.split(' ');
        const { status } = await sms.http(method, url, { text, headers: headers() });
        // A list that holds nothing is a file that asks for nothing.
        if (url.endsWith('import') && ['[]', '{"servers":[]}'].includes(text.trim())) return;
        expect(status).toBe(400);
      }),
      { numRuns: RUNS },
    );
  });

  it('answers records with anything in their fields with an error, unless they are valid', async () => {
    const field = fc.constantFrom(...Object.keys({ ...fsRecord, http: 0, budgets: 0, sandbox: 0, approval_policy: 0 }));
    await fc.assert(
      fc.asyncProperty(field, fc.jsonValue(), async (name, value) => {
        const json = { ...fsRecord, server_id: 'fuzzed', [name]: value };
        fc.pre(!parseRecord(json, { strict: false }).ok);
        const { status, body } = await sms.http('POST', servers, { json });
        expect(status).toBe(400);
        expect(body.detail).toEqual(expect.any(String));
      }),
      { numRuns: RUNS },
    );
  });

  it('answers any path, query and header with an error or what is there', async () => {
    const name = fc.stringMatching(/^[a-z-]{1,12}$/);
    const value = fc.stringMatching(/^[ -~]{0,30}$/);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('GET', 'PUT', 'DELETE', 'POST', 'PATCH', 'OPTIONS'),
        fc.webPath(),
        fc.webQueryParameters(),
        fc.dictionary(name, value, { maxKeys: 4 }),
        async (method, path, query, more) => {
          for (const owned of [
            'host',
            'connection',
            'content-length',
            'transfer-encoding',
            'expect',
            'upgrade',
            'te',
          ]) {
            fc.pre(!(owned in more));
          }
          const target = `${servers}/x${path}?${query}`;
          const { status } = await sms.http(method, target, { headers: { ...more, ...headers() } });
          expect(status).toBeGreaterThanOrEqual(200);
          expect(status).toBeLessThan(500);
        },
      ),
      { numRuns: RUNS },
    );
  });

  it('survives bytes that are no HTTP', async () => {
    const { port } = new URL(sms.sms.http);
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        await sendBytes(Number(port), Buffer.concat([Buffer.from('GET / HTTP/1.1\r\nhost: localhost\r\n'), bytes]));
      }),
      { numRuns: 50 },
    );
  });
});

describe('gRPC', () => {
  const methods = [
    '/sms.McpRegistryService/ListMcpServers',
    '/sms.McpRegistryService/WatchMcpServers',
    '/sms.McpRegistryService/UpsertMcpServer',
    '/sms.McpRegistryService/DeleteMcpServer',
    '/sms.McpNodeService/ReportMcpNode',
    '/sms.NodeRunService/ReportRuns',
    '/grpc.health.v1.Health/Check',
  ];
  const reads = new Set(methods.filter((method) => /List|Watch|Check/.test(method)));

  it('answers any message with an error, or as one that says nothing it knows', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...methods), fc.uint8Array({ maxLength: 100 }), async (method, bytes) => {
        const status = await call(method, envelope(bytes));
        if (!reads.has(method)) expect(status).not.toBe('0');
      }),
      { numRuns: RUNS },
    );
  });

  it('answers any envelope with an error', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...methods), fc.uint8Array({ maxLength: 60 }), async (method, bytes) => {
        const status = await call(method, Buffer.from(bytes));
        if (!reads.has(method)) expect(status).not.toBe('0');
      }),
      { numRuns: RUNS },
    );
  });

  it('answers an almost valid record with one broken byte with an error', async () => {
    const bytes = toBinary(
      UpsertMcpServerRequestSchema,
      create(UpsertMcpServerRequestSchema, { record: { serverId: 'fs', transport: 0, stdio: { command: 'c' } } }),
    );
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length - 1), fc.nat(255), async (at, byte) => {
        const broken = Uint8Array.from(bytes);
        broken[at] = byte;
        expect(await call('/sms.McpRegistryService/UpsertMcpServer', envelope(broken))).not.toBe('0');
      }),
      { numRuns: RUNS },
    );
  });

  it('answers any method, content type and timeout with an error', async () => {
    const type = fc.oneof(
      fc.constantFrom('application/grpc+json', 'application/json', 'text/plain', 'application/grpc-web'),
    );
    await fc.assert(
      fc.asyncProperty(fc.webPath(), type, fc.stringMatching(/^[ -~]{0,10}$/), async (path, contentType, timeout) => {
        expect(await call(`/sms.${path}`, envelope(new Uint8Array()))).not.toBe('0');
        const upsert = '/sms.McpRegistryService/UpsertMcpServer';
        expect(await call(upsert, envelope(new Uint8Array()), { 'content-type': contentType })).not.toBe('0');
        expect(await call(upsert, envelope(new Uint8Array()), { 'grpc-timeout': timeout })).not.toBe('0');
        expect(await call(upsert, envelope(new Uint8Array()), { origin: 'https://evil.example' })).not.toBe('0');
      }),
      { numRuns: 30 },
    );
  });

  it('refuses a message beyond its limit, compressed or not', async () => {
    const { gzipSync } = await import('node:zlib');
    const large = new Uint8Array(2 * 1024 * 1024);
    const upsert = '/sms.McpRegistryService/UpsertMcpServer';
    expect(await call(upsert, envelope(large))).toBe('8');
    expect(await call(upsert, envelope(gzipSync(large), 1), { 'grpc-encoding': 'gzip' })).toBe('8');
  });

  it('survives bytes that are no HTTP/2', async () => {
    const port = Number(sms.sms.grpc.split(':').at(-1));
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), fc.boolean(), async (bytes, preface) => {
        const start = preface ? 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' : '';
        await sendBytes(port, Buffer.concat([Buffer.from(start), bytes]));
      }),
      { numRuns: 50 },
    );
  });

  /** The gRPC status, or another word where it did not come to one. */
  function call(path: string, body: Buffer, headers: Record<string, string> = {}): Promise<string> {
    return new Promise((resolve) => {
      const session = connectHttp2(`http://${sms.sms.grpc}`);
      const done = (status: unknown) => {
        session.destroy();
        resolve(String(status));
      };
      session.on('error', () => done('broken'));
      const stream = session.request({
        ':method': 'POST',
        ':path': path,
        'content-type': 'application/grpc',
        authorization: `Bearer ${sms.adminToken}`,
        ...headers,
      });
      stream.on('error', () => done('broken'));
      stream.on('response', (response) => {
        if (response[':status'] !== 200 || response['grpc-status'] !== undefined) {
          done(response['grpc-status'] ?? `http ${response[':status']}`);
        } else if (path.endsWith('WatchMcpServers')) done('watching');
      });
      stream.on('trailers', (trailers) => done(trailers['grpc-status']));
      stream.on('close', () => done('closed'));
      stream.resume();
      stream.end(body);
    });
  }

  function envelope(message: Uint8Array, flags = 0): Buffer {
    const head = Buffer.alloc(5);
    head[0] = flags;
    head.writeUInt32BE(message.length, 1);
    return Buffer.concat([head, message]);
  }
});

/** Writes, says that nothing more comes, and waits for the other side to hang up. */
function sendBytes(port: number, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.end(bytes));
    socket.on('error', () => {});
    socket.on('close', () => resolve());
    socket.resume();
  });
}
