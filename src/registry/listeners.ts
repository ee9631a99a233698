import { chmodSync, lstatSync, mkdirSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { errorCode, errorText } from '../base/errors.ts';
import { writePrivateFile } from '../base/private-file.ts';
import { privateDirectoryProblem, type RegistryFiles } from '../config/directories.ts';
import type { RegistryConfig } from '../config/registry/registry-config.ts';
import type { EndpointFile } from '../config/registry/registry-endpoint.ts';
import { authorityOf, type BoundAddress, startHttpServer, type TlsMaterial } from '../server/http/http-server.ts';
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

/** Opens the gRPC and HTTP listeners: TCP ports, and Unix sockets for the same user. Writes the endpoint file. */
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
      // Clients over the network can still be served.
      log('error', 'no_local_sockets', { message: errorText(error) });
    }
    const removeEndpoint = announce(files, { grpc, http }, tls === null ? 'http' : 'https', log);
    return {
      grpc,
      http,
      useTls: (renewed) => {
        for (const listener of open) listener.useTls(renewed);
      },
      close: async (graceMs) => {
        removeEndpoint();
        await close(graceMs);
      },
    };
  } catch (error) {
    await close(0);
    throw error;
  }
}

/** Clients without the file can use --sms, so a failed write is only logged. Returns the function that removes the file. */
function announce(
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

/** Writes the addresses of this registry for clients of the same user. Returns the function that removes the file. */
function writeEndpointFile(
  { endpoint, grpcSocket, httpSocket }: RegistryFiles,
  bound: { readonly grpc: BoundAddress; readonly http: BoundAddress },
  scheme: 'http' | 'https',
): () => void {
  const url = ({ host, port }: BoundAddress) => `${scheme}://${authorityOf(reachable(host), port)}`;
  const content: EndpointFile & { readonly grpc_socket: string; readonly http_socket: string } = {
    grpc: url(bound.grpc),
    http: url(bound.http),
    grpc_socket: grpcSocket,
    http_socket: httpSocket,
    pid: process.pid,
  };
  writePrivateFile(endpoint, `${JSON.stringify(content)}\n`);
  return () => rmSync(endpoint, { force: true });
}

/** A client cannot connect to the wildcard address. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

const PRIVATE_DIRECTORY = 0o700;
const PRIVATE_SOCKET = 0o600;

/**
 * Creates the directory of the sockets and removes sockets of a killed process.
 * Precondition: this process holds the lock of the data, so no other registry listens there.
 */
function prepareSockets({ sockets, grpcSocket, httpSocket }: RegistryFiles): void {
  mkdirSync(sockets, { recursive: true, mode: PRIVATE_DIRECTORY });
  const problem = privateDirectoryProblem(sockets);
  if (problem !== null) throw new Error(`local clients need a directory that only this user can access: ${problem}`);
  for (const path of [grpcSocket, httpSocket]) {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found !== undefined && !found.isSocket()) throw new Error(`${path} exists and is not a socket; remove it`);
    rmSync(path, { force: true });
  }
}

/** The directory already denies access to other users; the mode also shows it on the socket. */
function closeToOthers(path: string): void {
  chmodSync(path, PRIVATE_SOCKET);
}
