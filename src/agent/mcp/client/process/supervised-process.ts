import type { ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { groupGone, killMarked, signalGroup } from './process-group.ts';

export type PipedChild = ChildProcessByStdio<Writable, Readable, Readable>;

export interface EndGraces {
  readonly stdinGraceMs: number;
  readonly termGraceMs: number;
}

/** After SIGKILL only the kernel can be slow; it is not waited for longer than this. */
const KILL_WAIT_MS = 1_000;

/**
 * A running server and everything it started. It is over when its first process has ended and the rest of its group,
 * and whoever left the group, was ended too; that rest never keeps `exited` waiting.
 */
export class SupervisedProcess {
  readonly child: PipedChild;
  readonly pid: number;
  /** What helps to understand its death, for the end of a message; may be empty. */
  readonly note: string;
  /** How the first process ended, in words. */
  readonly exited: Promise<string>;
  /** Resolves when nothing is left of it. Never rejects. */
  readonly ended: Promise<void>;
  readonly #graces: EndGraces;
  readonly #tmpDir: string;
  #ending: Promise<void> | null = null;
  #hurry = false;
  #exited = false;

  constructor(
    child: PipedChild,
    details: {
      pid: number;
      tmpDir: string;
      note: string;
      graces: EndGraces;
      cleanUp: (leftovers: number) => Promise<void>;
    },
  ) {
    this.child = child;
    this.pid = details.pid;
    this.note = details.note;
    this.#graces = details.graces;
    this.#tmpDir = details.tmpDir;
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`));
    });
    this.ended = this.exited.then(async () => {
      this.#exited = true;
      const leftovers = await this.#endRest();
      child.stdin.destroy();
      child.stdout.destroy();
      child.stderr.destroy();
      await details.cleanUp(leftovers);
    });
  }

  /** Whether it is on its way out. */
  get ending(): boolean {
    return this.#exited || this.#ending !== null;
  }

  /** Asks it to end: closed stdin, then SIGTERM, then SIGKILL, each with its grace. */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  /** For a host that cannot wait any longer. */
  kill(): Promise<void> {
    this.#hurry = true;
    signalGroup(this.pid, 'SIGKILL');
    return this.end();
  }

  async #end(): Promise<void> {
    this.child.stdin.end();
    if (!(await this.#exitsWithin(this.#graces.stdinGraceMs))) {
      signalGroup(this.pid, 'SIGTERM');
      if (!(await this.#exitsWithin(this.#graces.termGraceMs))) signalGroup(this.pid, 'SIGKILL');
    }
    await Promise.race([this.ended, this.#timeout(this.#graces.termGraceMs + 2 * KILL_WAIT_MS)]);
  }

  async #endRest(): Promise<number> {
    if (signalGroup(this.pid, 'SIGTERM')) {
      if (this.#hurry || !(await groupGone(this.pid, this.#graces.termGraceMs))) {
        signalGroup(this.pid, 'SIGKILL');
        await groupGone(this.pid, KILL_WAIT_MS);
      }
    }
    return killMarked(`TMPDIR=${this.#tmpDir}`);
  }

  async #exitsWithin(timeoutMs: number): Promise<boolean> {
    return Promise.race([this.exited.then(() => true), this.#timeout(timeoutMs).then(() => false)]);
  }

  #timeout(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      void this.ended.then(() => clearTimeout(timer));
    });
  }
}
