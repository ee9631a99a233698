import { Agent, request } from 'node:http';
import { type Client, Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import { McpRegistryService } from '../../../src/generated/proto/sms/mcp_registry_pb.ts';
import type { ListedServer } from './ledger.ts';
import type { Addresses } from './sms-life.ts';

export type Registry = Client<typeof McpRegistryService>;

export interface Listing {
  readonly epoch: string;
  readonly revision: number;
  readonly servers: readonly ListedServer[];
}

export interface SmsClient {
  readonly registry: Registry;
  http(method: string, path: string, json?: unknown): Promise<{ readonly status: number; readonly text: string }>;
  list(): Promise<Listing>;
  close(): void;
}

/** No answer is waited for longer: what hangs is a finding. */
const DEADLINE_MS = 30_000;

export function connectTo({ grpc, http }: Addresses, token: string): SmsClient {
  const sessionManager = new Http2SessionManager(`http://${grpc}`);
  const transport = createGrpcTransport({
    baseUrl: `http://${grpc}`,
    sessionManager,
    interceptors: [
      (next) => (call) => {
        call.header.set('authorization', `Bearer ${token}`);
        return next(call);
      },
    ],
  });
  const registry = createClient(McpRegistryService, transport);
  const agent = new Agent({ keepAlive: true });
  return {
    registry,
    http(method, path, json) {
      const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
      const headers = {
        authorization: `Bearer ${token}`,
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      };
      const req = request(http + path, { method, agent, headers, timeout: DEADLINE_MS }, (res) => {
        let text = '';
        res.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
        });
        res.once('end', () => resolve({ status: res.statusCode ?? 0, text }));
        res.once('error', reject);
        res.once('close', () => reject(new Error('the answer broke off')));
      });
      req.once('error', reject);
      req.once('timeout', () => req.destroy(new Error(`no answer within ${DEADLINE_MS} ms`)));
      req.end(json === undefined ? undefined : JSON.stringify(json));
      return promise;
    },
    async list() {
      const { epoch, revision, servers } = await registry.listMcpServers({}, { timeoutMs: DEADLINE_MS });
      return {
        epoch,
        revision: Number(revision),
        servers: servers.map((server) => ({
          id: server.serverId,
          value: server.displayName,
          revision: Number(server.modRevision),
        })),
      };
    },
    close() {
      sessionManager.abort();
      agent.destroy();
    },
  };
}

const answered: ReadonlySet<Code> = new Set([
  Code.InvalidArgument,
  Code.NotFound,
  Code.AlreadyExists,
  Code.PermissionDenied,
  Code.Unauthenticated,
  Code.ResourceExhausted,
  Code.FailedPrecondition,
]);

/** Whether the registry itself said no; false: the connection broke, and nobody knows what became of the call. */
export function isAnswer(error: unknown): boolean {
  return error instanceof ConnectError && answered.has(error.code);
}
