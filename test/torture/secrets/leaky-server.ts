import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fixture } from '../../agent/mcp/client/pool-records.ts';

/** The HTTP server that repeats whatever it is sent. */
export class LeakyServer {
  readonly #child: ChildProcess;
  readonly #port: number;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.#port = port;
  }

  static async start(): Promise<LeakyServer> {
    const child = spawn(process.execPath, [fixture('leaky-http.mjs')], { stdio: ['ignore', 'pipe', 'ignore'] });
    const [line] = await once(child.stdout, 'data');
    return new LeakyServer(child, Number(String(line)));
  }

  readonly url = (path: string): string => `http://127.0.0.1:${this.#port}${path}`;

  stop(): void {
    this.#child.kill('SIGKILL');
  }
}
