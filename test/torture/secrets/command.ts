import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { builtCommand } from '../../support/built-command.ts';

/** Far beyond anything a round waits for. */
const HANGS_MS = 60_000;

/** One of our commands as it is installed, and all that it says. */
export class Command {
  readonly child: ChildProcess;
  readonly #exited: Promise<unknown>;
  stdout = '';
  stderr = '';

  constructor(
    name: 'spear' | 'spear-run' | 'spear-sms',
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    nodeArgs: readonly string[] = [],
  ) {
    this.child = spawn(process.execPath, [...nodeArgs, builtCommand(name), ...args], {
      env: { PATH: process.env.PATH, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const timer = setTimeout(() => this.child.kill('SIGKILL'), HANGS_MS);
    this.#exited = once(this.child, 'close').then(() => clearTimeout(timer));
    for (const name of ['stdout', 'stderr'] as const) {
      this.child[name]?.setEncoding('utf8').on('data', (text: string) => {
        this[name] += text;
      });
    }
  }

  async finished(): Promise<void> {
    await this.#exited;
  }

  /** The first match of what it says on either stream; null if it ends without one. */
  says(pattern: RegExp): Promise<string | null> {
    return new Promise((resolve) => {
      const look = () => {
        const found = pattern.exec(`${this.stdout}\n${this.stderr}`)?.[0];
        if (found !== undefined) resolve(found);
      };
      this.child.stdout?.on('data', look);
      this.child.stderr?.on('data', look);
      void this.#exited.then(() => resolve(null));
      look();
    });
  }
}
