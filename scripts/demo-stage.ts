import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const START_MS = 120_000;

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** A serving process, and the addresses it printed. */
export interface Serving {
  readonly child: ChildProcess;
  readonly says: Readonly<Record<string, string>>;
}

/** A demo: a temporary directory, commands that are printed as typed, and processes that end with it. */
export class Stage {
  readonly workspace: string;
  readonly #running = new Set<ChildProcess>();

  private constructor(workspace: string) {
    this.workspace = workspace;
  }

  /** `play` returns the exit code of this process. */
  static async open(name: string, play: (stage: Stage) => Promise<number>): Promise<void> {
    if (!existsSync(join(root, 'dist', 'spearlet.cjs'))) await import('./build.ts');
    const stage = new Stage(mkdtempSync(join(tmpdir(), `spear-demo-${name}-`)));
    const interrupted = () => void stage.#close().then(() => process.exit(130));
    process.once('SIGINT', interrupted);
    try {
      process.exitCode = await play(stage);
    } finally {
      process.off('SIGINT', interrupted);
      await stage.#close();
    }
  }

  path(...parts: readonly string[]): string {
    return join(this.workspace, ...parts);
  }

  async serve(name: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Serving> {
    this.#show(name, args);
    const child = spawn(process.execPath, [join(root, 'bin', `${name}.cjs`), ...args], {
      cwd: this.workspace,
      env: { ...this.#environment(), ...env },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    this.#running.add(child);
    const line = once(createInterface(child.stdout), 'line', { signal: AbortSignal.timeout(START_MS) });
    const dead = once(child, 'exit').then(([code]) => Promise.reject(new Error(`${name} ended with ${code}`)));
    const [says] = (await Promise.race([line, dead])) as [string];
    dead.catch(() => {});
    return { child, says: JSON.parse(says) as Record<string, string> };
  }

  async end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
    this.#running.delete(child);
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  /** Runs a command, prints its output and returns its stdout. `exit`: expected exit code. */
  spear(args: readonly string[], { env = {}, quiet = false, exit = 0 }: CommandOptions = {}): string {
    this.#show('spear', args);
    const command = [join(root, 'bin', 'spear.cjs'), ...args];
    const options = { cwd: this.workspace, env: { ...this.#environment(), ...env }, encoding: 'utf8' } as const;
    const { status, stdout, stderr } = spawnSync(process.execPath, command, options);
    if (!quiet) process.stdout.write(`${stdout}${stderr}`.replaceAll(this.workspace, '$TMP'));
    if (status !== exit) throw new Error(`spear ${args[0]} ended with ${status}: ${stderr}`);
    return stdout;
  }

  title(text: string): void {
    console.log(`\n${text}\n${'─'.repeat(text.length)}`);
  }

  say(text: string): void {
    console.log(`  ${text}`);
  }

  #show(name: string, args: readonly string[]): void {
    console.log(`$ npx ${name} ${args.join(' ')}`.replaceAll(this.workspace, '$TMP'));
  }

  #environment(): NodeJS.ProcessEnv {
    return { ...process.env, HOME: this.workspace, XDG_STATE_HOME: '', XDG_CONFIG_HOME: '' };
  }

  async #close(): Promise<void> {
    for (const child of [...this.#running].reverse()) await this.end(child, 'SIGTERM');
    rmSync(this.workspace, { recursive: true, force: true });
  }
}

export interface CommandOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly quiet?: boolean;
  readonly exit?: number;
}
