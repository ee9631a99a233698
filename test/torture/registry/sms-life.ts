import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { builtCommand } from '../../support/built-command.ts';
import type { Failures } from '../topic.ts';

const program = builtCommand('spear-sms');
const START_DEADLINE_MS = 20_000;
/** What is kept of a process's log, to say why it ended. */
const KEPT_LOG = 2_000;

export interface Addresses {
  readonly grpc: string;
  readonly http: string;
}

export interface SmsLivesOptions {
  readonly directory: string;
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  readonly failures: Failures;
}

/** One registry, process after process, on the same data and the same ports. */
export class SmsLives {
  readonly #options: SmsLivesOptions;
  #child: ChildProcess | null = null;
  #addresses: Addresses | null = null;
  #serving = Promise.withResolvers<Addresses>();
  #isServing = false;
  #log = '';
  /** Ends that nobody asked for. */
  crashed = 0;
  /** What starts the next process, before its own command line. */
  launcher: readonly string[] = [];

  constructor(options: SmsLivesOptions) {
    this.#options = options;
  }

  get pid(): number {
    if (this.#child?.pid === undefined) throw new Error('the registry is not there');
    return this.#child.pid;
  }

  get addresses(): Addresses {
    if (this.#addresses === null) throw new Error('the registry was never started');
    return this.#addresses;
  }

  /** Resolves while a process serves; waits for the next one otherwise. */
  serving(): Promise<Addresses> {
    return this.#serving.promise;
  }

  async start(): Promise<void> {
    const child = this.#spawn();
    const line = once(createInterface(child.stdout as NodeJS.ReadableStream), 'line') as Promise<[string]>;
    const late = new Promise<null>((resolve) => setTimeout(resolve, START_DEADLINE_MS, null).unref());
    const ready = await Promise.race([line, once(child, 'exit').then(() => null), late]);
    if (ready === null) throw new Error(`spear-sms did not start: ${this.#log}`);
    this.#addresses ??= JSON.parse(ready[0]) as Addresses;
    this.#isServing = true;
    this.#serving.resolve(this.#addresses);
  }

  /** A start that does not come to its end, or just about does. */
  async startAndKill(afterMs: number): Promise<void> {
    this.#spawn();
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    await this.kill();
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    this.#child = null;
    // Who waits for a process goes on waiting where this one never served.
    if (this.#isServing) this.#serving = Promise.withResolvers();
    this.#isServing = false;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await exited;
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    process.kill(this.pid, name);
  }

  #spawn(): ChildProcess {
    const { directory, args = [], env = {}, failures } = this.#options;
    const { grpc = '127.0.0.1:0', http = 'http://127.0.0.1:0' } = this.#addresses ?? {};
    const where = ['--grpc', grpc, '--http', http.replace('http://', ''), '--data', `${directory}/registry.db`];
    const [command = '', ...rest] = [...this.launcher, process.execPath, program, ...where, ...args];
    const child = spawn(command, rest, {
      env: { HOME: directory, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    this.#log = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#log = (this.#log + text).slice(-KEPT_LOG);
    });
    child.once('exit', (code, signal) => {
      if (this.#child !== child) return;
      this.crashed++;
      failures.add(`spear-sms ended by itself with ${code ?? signal}: ${this.#log}`);
    });
    return child;
  }
}
