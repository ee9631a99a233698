import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach } from 'vitest';
import { builtCommand } from '../support/built-command.ts';

export const root = fileURLToPath(new URL('../..', import.meta.url));
/** The Node that the project brings. */
export const projectNode = join(root, 'node_modules/.bin/node');
export const command = builtCommand('spear-run');
export const fixture = (path: string): string => join(root, 'fixtures', path);

/** Far beyond anything a test waits for: a process that is still there then hangs. */
const HANGS_MS = 60_000;

const home = mkdtempSync(join(tmpdir(), 'spear-e2e-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** A folder of this test file's own, removed with everything in it at the end. */
export const scratch = home;

export interface CliOptions {
  /** Added to an environment that holds nothing of this machine but PATH. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly node?: string;
  readonly nodeArgs?: readonly string[];
}

export interface Finished {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

const running = new Set<Cli>();

afterEach(() => {
  for (const cli of running) cli.child.kill('SIGKILL');
});

/** A `spear-run` process. Nothing of its output is read until somebody asks: that is how a slow reader looks. */
export class Cli {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #text = { stdout: '', stderr: '' };

  constructor(args: readonly string[], options: CliOptions = {}) {
    const { env = {}, cwd = root, node = projectNode, nodeArgs = [] } = options;
    this.child = spawn(node, [...nodeArgs, command, ...args], {
      cwd,
      env: { PATH: process.env.PATH, HOME: home, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    running.add(this);
    this.child.stdin.on('error', () => {}); // a guest need not read its input
    const hanging = setTimeout(() => this.child.kill('SIGKILL'), HANGS_MS);
    this.#exited = new Promise((resolve, reject) => {
      this.child.once('error', reject);
      this.child.once('close', (code, signal) => {
        clearTimeout(hanging);
        running.delete(this);
        resolve({ code, signal });
      });
    });
  }

  /** Starts to read what the process says. */
  listen(): this {
    for (const name of ['stdout', 'stderr'] as const) {
      this.child[name].setEncoding('utf8').on('data', (text: string) => {
        this.#text[name] += text;
      });
    }
    return this;
  }

  /** Resolves when the stream has said `text`. Precondition: {@link listen}. */
  async says(name: 'stdout' | 'stderr', text: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const look = () => {
        if (this.#text[name].includes(text)) resolve();
      };
      this.child[name].on('data', look);
      this.child.once('close', () =>
        reject(new Error(`${name} never said ${JSON.stringify(text)}: ${this.#text[name]}`)),
      );
      look();
    });
  }

  /** What it has said so far. Precondition: {@link listen}. */
  get text(): Readonly<Record<'stdout' | 'stderr', string>> {
    return this.#text;
  }

  async finished(): Promise<Finished> {
    const { code, signal } = await this.#exited;
    return { code, signal, ...this.#text };
  }
}

/** Runs `spear-run` to its end with the given input. */
export async function spearRun(
  args: readonly string[],
  options: CliOptions & { input?: string } = {},
): Promise<Finished> {
  const cli = new Cli(args, options).listen();
  cli.child.stdin.end(options.input ?? '');
  return cli.finished();
}
