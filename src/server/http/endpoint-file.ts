import { rmSync } from 'node:fs';
import { writePrivateFile } from '../../base/private-file.ts';
import type { RegistryFiles } from '../../config/directories.ts';
import type { EndpointFile } from '../../config/registry/registry-endpoint.ts';
import { authorityOf, type BoundAddress } from './bind.ts';

/** Leaves word of where this registry listens, for clients of the same user. The returned function takes it back. */
export function writeEndpointFile(
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

/** "Every address" is not one that a client can call. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}
