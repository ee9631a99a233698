import { request as requestInClear } from 'node:http';
import { request as requestByTls } from 'node:https';

/** As an orchestrator asks: a connection of its own each time, and an answer that does not come is a failure. */
const DEADLINE_MS = 10_000;

export interface Probed {
  readonly url: string;
  /** The socket in the file system that it is asked through; null: the address of the url. */
  readonly socketPath: string | null;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ProbeAnswer {
  /** Infinite without the right answer. */
  readonly ms: number;
  /** Why there was none, or which one it was instead; null: it was the right one. */
  readonly problem: string | null;
}

export function probe({ url, socketPath, headers = {} }: Probed): Promise<ProbeAnswer> {
  const startedAt = performance.now();
  return new Promise((resolve) => {
    const fail = (problem: string) => resolve({ ms: Number.POSITIVE_INFINITY, problem });
    const request = url.startsWith('https:') ? requestByTls : requestInClear;
    const where = socketPath === null ? {} : { socketPath };
    const options = { agent: false, timeout: DEADLINE_MS, rejectUnauthorized: false, headers, ...where };
    const req = request(url, options, (res) => {
      let body = '';
      res.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      res.once('end', () => {
        if (res.statusCode === 200) resolve({ ms: performance.now() - startedAt, problem: null });
        else fail(`${res.statusCode} ${body.trim()}`);
      });
      res.once('error', (error) => fail(error.message));
    });
    req.once('error', (error) => fail(error.message));
    req.once('timeout', () => req.destroy(new Error('too late')));
    req.end();
  });
}

/** The value that this share of them stays below: 0.99 for p99. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
