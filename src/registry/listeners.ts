import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { errorCode, errorText } from '../base/error-text.ts';
import type { RegistryConfig } from '../config/registry/registry-config.ts';
import type { BoundAddress, TlsMaterial } from '../server/http/bind.ts';
import { writeEndpointFile } from '../server/http/endpoint-file.ts';
import { startHttpServer } from '../server/http/http-server.ts';
import { closeToOthers, prepareSockets } from '../server/http/local-sockets.ts';
import type { PeerGate } from '../server/http/peer-gate.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import { startGrpcServer } from './grpc/grpc-server.ts';

export interface Handlers {
  readonly grpc: (req: Http2ServerRequest, res: Http2ServerResponse) => void;
  readonly http: (req: IncomingMessage, res: ServerResponse) => void;
}

export interface Listeners {
  readonly grpc: BoundAddress;
  readonly http: BoundAddress & { readonly url: string };
  useTls(tls: TlsMaterial): void;
  close(graceMs: number): Promise<void>;
}

interface Listener extends BoundAddress {
  useTls(tls: TlsMaterial): void;
  close(graceMs: number): Promise<void>;
}

/** Serves both protocols: on their ports, and for this user on sockets beside the data. Leaves word of where. */
export async function openListeners(
  { grpc: grpcAddress, http: httpAddress, files, limits }: RegistryConfig,
  tls: TlsMaterial | null,
  handlers: Handlers,
  gate: PeerGate,
  onRefused: (protocol: 'grpc' | 'http') => void,
  log: ServiceLog,
): Promise<Listeners> {
  const open: Listener[] = [];
  const keep = <T extends Listener>(listener: T): T => {
    open.push(listener);
    return listener;
  };
  const close = async (graceMs: number) => {
    await Promise.all(open.map((listener) => listener.close(graceMs)));
  };
  const connections = { max: limits.max_connections, maxPerPeer: limits.max_connections_per_peer, gate };
  const forHttp = { ...connections, onRefused: () => onRefused('http') };
  const forGrpc = {
    ...connections,
    onRefused: () => onRefused('grpc'),
    maxCallsPerConnection: limits.max_calls_per_connection,
    idleMs: limits.idle_connection_ms,
  };
  try {
    const grpc = keep(await startGrpcServer(grpcAddress, tls, forGrpc, handlers.grpc));
    const http = keep(await startHttpServer(httpAddress, tls, forHttp, handlers.http));
    try {
      prepareSockets(files);
      keep(await startGrpcServer({ path: files.grpcSocket }, null, forGrpc, handlers.grpc));
      keep(await startHttpServer({ path: files.httpSocket }, null, forHttp, handlers.http));
      for (const path of [files.grpcSocket, files.httpSocket]) closeToOthers(path);
    } catch (error) {
      // Whoever comes over the network can still be served.
      log('error', 'no_local_sockets', { message: errorText(error) });
    }
    const forgetEndpoint = leaveWord(files, { grpc, http }, tls === null ? 'http' : 'https', log);
    return {
      grpc,
      http,
      useTls: (renewed) => {
        for (const listener of open) listener.useTls(renewed);
      },
      close: async (graceMs) => {
        forgetEndpoint();
        await close(graceMs);
      },
    };
  } catch (error) {
    await close(0);
    throw error;
  }
}

/** Clients can be told the address; that there is no room for a file must not keep them from being served. */
function leaveWord(
  files: RegistryConfig['files'],
  bound: { readonly grpc: BoundAddress; readonly http: BoundAddress },
  scheme: 'http' | 'https',
  log: ServiceLog,
): () => void {
  try {
    return writeEndpointFile(files, bound, scheme);
  } catch (error) {
    log('error', 'endpoint_file', {
      problem: `${files.endpoint} cannot be written (${errorCode(error) ?? error}); clients need --sms`,
    });
    return () => {};
  }
}
