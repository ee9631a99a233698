import { readFileSync } from 'node:fs';
import { isLoopbackHost } from './address.ts';

/** What an SMS leaves beside its data while it serves. It says where to look, and proves nothing. */
export interface EndpointFile {
  readonly grpc: string;
  readonly http: string;
  readonly pid: number;
}

/** Null where there is none that can be read. */
export function readEndpointFile(path: string): EndpointFile | null {
  try {
    const { grpc, http, pid } = JSON.parse(readFileSync(path, 'utf8')) as Partial<EndpointFile>;
    if (typeof grpc !== 'string' || typeof http !== 'string' || typeof pid !== 'number') return null;
    return { grpc, http, pid };
  } catch {
    return null;
  }
}

/** Whether the process that wrote the file is still there. One that was killed leaves its file behind. */
export function isServing({ pid }: EndpointFile): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    // Also where the number was given out again, to a process of somebody else.
    return false;
  }
}

/** Whether both lead to the same port of this machine. */
export function sameLoopbackPort(a: string, b: string): boolean {
  const [one, other] = [URL.parse(a), URL.parse(b)];
  if (one === null || other === null || one.port !== other.port) return false;
  return [one, other].every(({ hostname }) => isLoopbackHost(hostname.replace(/^\[|\]$/g, '')));
}
