import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { afterAll, afterEach } from 'vitest';
import { needsCommand, skipIfMissing } from './needs.ts';

// It makes the terminal.
skipIfMissing(needsCommand('script', 'apt-get install bsdutils'));

/** Far beyond anything a test waits for: a process that is still there then hangs. */
const HANGS_MS = 60_000;

const folder = mkdtempSync(join(tmpdir(), 'spear-terminal-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const running = new Set<OnTerminal>();

afterEach(() => {
  for (const run of running) run.end();
});

let made = 0;

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

export interface TerminalOptions {
  /** A file for the standard input. @default the terminal */
  readonly stdin?: string;
  /** Whether the standard output goes to a file instead of the screen. */
  readonly ownOutput?: boolean;
  /** All of the environment besides PATH. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface TerminalEnd {
  readonly code: number | null;
  /** With `ownOutput`. */
  readonly stdout: string;
  /** Whether the terminal's settings are what they were before. */
  readonly restored: boolean;
}

/** A command on a terminal of its own, made by script(1): what its screen shows, and a keyboard. */
export class OnTerminal {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #exited: Promise<number | null>;
  readonly #notes = join(folder, String(++made));
  screen = '';

  constructor(command: readonly string[], options: TerminalOptions = {}) {
    const input = options.stdin === undefined ? '' : ` < ${quoted(options.stdin)}`;
    const output = options.ownOutput ? ` > ${quoted(`${this.#notes}.out`)}` : '';
    const note = (what: string) => `stty -g > ${quoted(`${this.#notes}.${what}`)}`;
    const run = `${command.map(quoted).join(' ')}${input}${output}`;
    const shell = `${note('before')}; ${run}; code=$?; ${note('after')}; exit $code`;
    this.#child = spawn('script', ['-qefc', shell, '/dev/null'], {
      env: { PATH: process.env.PATH, SHELL: '/bin/sh', ...options.env },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    running.add(this);
    this.#child.stdin.on('error', () => {});
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.screen += text;
    });
    const hanging = setTimeout(() => this.end(), HANGS_MS);
    this.#exited = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', (code) => {
        clearTimeout(hanging);
        running.delete(this);
        resolve(code);
      });
    });
  }

  press(keys: string): void {
    this.#child.stdin.write(keys);
  }

  /** Resolves when the screen has shown it so often. */
  async shows(text: string, times = 1): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const look = () => {
        if (this.screen.split(text).length > times) resolve();
      };
      this.#child.stdout.on('data', look);
      this.#exited.then(() => reject(new Error(`never showed ${JSON.stringify(text)}: ${this.screen}`)), reject);
      look();
    });
  }

  async finished(): Promise<TerminalEnd> {
    const code = await this.#exited;
    const read = (what: string) => readFileSync(`${this.#notes}.${what}`, 'utf8');
    return { code, stdout: existing(() => read('out')), restored: read('before') === read('after') };
  }

  end(): void {
    this.#child.kill('SIGKILL');
  }
}

function existing(read: () => string): string {
  try {
    return read();
  } catch {
    return '';
  }
}
