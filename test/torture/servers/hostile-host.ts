import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('./hostile-http.ts', import.meta.url));

export interface RequestCount {
  readonly open: number;
  readonly requests: Readonly<Record<string, number>>;
}

/** The process that all hostile HTTP servers live in: what they waste is not the host's. */
export class HostileHttp {
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(): Promise<HostileHttp> {
    const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = await once(child.stdout, 'data');
    return new HostileHttp(child, Number(String(line)));
  }

  /** Connections but the one that asks, and requests by behaviour. */
  async count(): Promise<RequestCount> {
    const response = await fetch(`http://127.0.0.1:${this.port}/count`, { headers: { connection: 'close' } });
    const { open, requests } = (await response.json()) as RequestCount;
    return { open: open - 1, requests };
  }

  stop(): void {
    this.#child.kill('SIGKILL');
  }
}
