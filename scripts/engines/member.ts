import type { OwnedProcess } from './owned-process.ts';

/** One server of a cluster on loopback. */
export interface Member {
  readonly name: string;
  /** `127.0.0.1:PORT`, for clients; the same after a restart. */
  readonly address: string;
  /** Of the process that runs or ran last. */
  readonly pid: number | undefined;
  readonly isRunning: boolean;
  /** SIGKILL; resolves when it is gone. Its data stays. */
  kill(): Promise<void>;
  /** SIGSTOP: its connections stay open and nothing answers. */
  pause(): void;
  resume(): void;
  /** Starts it again on its data; resolves when it serves. */
  start(): Promise<void>;
}

export interface Cluster {
  readonly members: readonly Member[];
  /** Ends all members and removes their data. */
  stop(): Promise<void>;
}

export class ProcessMember implements Member {
  readonly name: string;
  readonly address: string;
  readonly #spawn: () => Promise<OwnedProcess>;
  readonly #ready: (process: OwnedProcess) => Promise<void>;
  #process: OwnedProcess | null = null;

  constructor(
    name: string,
    address: string,
    start: { spawn: () => Promise<OwnedProcess>; ready: (process: OwnedProcess) => Promise<void> },
  ) {
    this.name = name;
    this.address = address;
    this.#spawn = start.spawn;
    this.#ready = start.ready;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  get isRunning(): boolean {
    return this.#process?.isRunning ?? false;
  }

  async kill(): Promise<void> {
    await this.#process?.signal('SIGKILL');
  }

  pause(): void {
    void this.#process?.signal('SIGSTOP');
  }

  resume(): void {
    void this.#process?.signal('SIGCONT');
  }

  async start(): Promise<void> {
    if (this.isRunning) return;
    this.#process = await this.#spawn();
    await this.#ready(this.#process);
  }
}
