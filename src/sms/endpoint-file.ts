import { rmSync } from 'node:fs';
import { authorityOf, type BoundAddress } from './bind.ts';
import { writePrivateFile } from './private-file.ts';

/** Leaves word of where this registry listens, for clients of the same user. The returned function takes it back. */
export function writeEndpointFile(
  path: string,
  bound: { readonly grpc: BoundAddress; readonly http: BoundAddress },
  scheme: 'http' | 'https',
): () => void {
  const url = ({ host, port }: BoundAddress) => `${scheme}://${authorityOf(reachable(host), port)}`;
  const content = { grpc: url(bound.grpc), http: url(bound.http), pid: process.pid };
  writePrivateFile(path, `${JSON.stringify(content)}\n`);
  return () => rmSync(path, { force: true });
}

/** "Every address" is not one that a client can call. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}
