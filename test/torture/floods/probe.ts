import { request as requestInClear } from 'node:http';
import { request as requestByTls } from 'node:https';

/** As an orchestrator asks: a connection of its own each time, and an answer that does not come is a failure. */
const DEADLINE_MS = 10_000;

export interface Probed {
  readonly url: string;
  /** The socket in the file system that it is asked through; null: the address of the url. */
  readonly socketPath: string | null;
}

/** How long the answer took; infinite where there was none, or not the right one. */
export function probe({ url, socketPath }: Probed): Promise<number> {
  const startedAt = performance.now();
  return new Promise((resolve) => {
    const request = url.startsWith('https:') ? requestByTls : requestInClear;
    const where = socketPath === null ? {} : { socketPath };
    const options = { agent: false, timeout: DEADLINE_MS, rejectUnauthorized: false, ...where };
    const req = request(url, options, (res) => {
      res.resume();
      res.once('end', () => resolve(res.statusCode === 200 ? performance.now() - startedAt : Number.POSITIVE_INFINITY));
      res.once('error', () => resolve(Number.POSITIVE_INFINITY));
    });
    req.once('error', () => resolve(Number.POSITIVE_INFINITY));
    req.once('timeout', () => req.destroy(new Error('too late')));
    req.end();
  });
}

/** The value that this share of them stays below: 0.99 for p99. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
