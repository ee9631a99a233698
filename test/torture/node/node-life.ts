import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { builtCommand } from '../../support/built-command.ts';

const START_DEADLINE_MS = 60_000;
const KEPT_LOG = 4_000;
const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));

export interface NodeAnswer {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
}

/** A server that writes to `trail` what it was told to do. */
export const ledgerRecord = (trail: string) => ({
  server_id: 'ledger',
  transport: 'stdio',
  stdio: { command: process.execPath, args: [fixture('mcp-servers/ledger.mjs')], env: { TRAIL: trail } },
  allowed_tools: ['*'],
});

/** An agent of three turns whose model calls a tool three times, beside a task that only says hello. */
export function writeNodeFolder(
  folder: string,
  more: {
    readonly node?: string;
    readonly turnMs?: number;
    readonly says?: string;
    readonly labels?: readonly string[];
  } = {},
): void {
  const tasks = join(folder, 'tasks.d');
  const records = join(folder, 'mcp.d');
  mkdirSync(tasks, { recursive: true });
  mkdirSync(records, { recursive: true });
  const call = (label: string) => ({ id: label, name: 'ledger_work', arguments: { label } });
  const turn = (when: object, reply: object) => ({ when, reply, repeat: true, delay_ms: more.turnMs ?? 0 });
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  const [first = 'a', ...others] = more.labels ?? ['a', 'b', 'c'];
  const script = {
    turns: [
      turn({ role: 'user' }, { tool_calls: [call(first)], usage }),
      turn({ tool_call_id: first }, { tool_calls: others.map(call), usage }),
      turn({ tool_call_id: others.at(-1) }, { content: more.says ?? 'all done', usage }),
    ],
  };
  writeFileSync(join(folder, 'script.json'), JSON.stringify(script));
  writeFileSync(
    join(folder, 'config.toml'),
    `[backends.main]\nkind = "scripted"\nscript = "script.json"\n\n[mcp]\nstdio = "allow"\n\n[node]\n${more.node ?? ''}\n`,
  );
  writeFileSync(join(records, 'ledger.json'), JSON.stringify(ledgerRecord(join(folder, 'trail'))));
  writeFileSync(
    join(tasks, 'agent.toml'),
    [
      'name = "agent"',
      `wasm = ${JSON.stringify(fixture('c/files.wasm'))}`,
      '[config]',
      '"mcp.enabled" = true',
      '"mcp.default_server_ids" = ["ledger"]',
      '[retry]',
      'max_attempts = 1000',
    ].join('\n'),
  );
  writeFileSync(join(tasks, 'hello.toml'), `name = "hello"\nwasm = ${JSON.stringify(fixture('c/hello.wasm'))}\n`);
}

/** One node, process after process, on the same data. */
export class NodeLives {
  readonly #folder: string;
  readonly #args: readonly string[];
  readonly #sources: readonly string[];
  #child: ChildProcess | null = null;
  #url = '';
  #log = '';
  /** Ends that nobody asked for. */
  crashed = 0;
  /** What starts the next process, before its own command line. */
  launcher: readonly string[] = [];

  /** `sources`: where tasks and records come from, if not from the folder. */
  constructor(folder: string, args: readonly string[] = [], sources: readonly string[] | null = null) {
    this.#folder = folder;
    this.#args = args;
    this.#sources = sources ?? ['--task-dir', join(folder, 'tasks.d'), '--mcp-dir', join(folder, 'mcp.d')];
  }

  get log(): string {
    return this.#log;
  }

  get url(): string {
    return this.#url;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  async start(): Promise<void> {
    const child = this.spawn();
    const line = once(createInterface(child.stdout as NodeJS.ReadableStream), 'line') as Promise<[string]>;
    const late = new Promise<null>((resolve) => setTimeout(resolve, START_DEADLINE_MS, null).unref());
    const ready = await Promise.race([line, once(child, 'exit').then(() => null), late]);
    if (ready === null) throw new Error(`spearlet did not start: ${this.#log}`);
    this.#url = (JSON.parse(ready[0]) as { http: string }).http;
  }

  spawn(): ChildProcess {
    const folder = this.#folder;
    const where = ['--data', join(folder, 'data'), '--listen', '127.0.0.1:0', '--config', join(folder, 'config.toml')];
    const own = [process.execPath, builtCommand('spearlet'), ...where, ...this.#sources, ...this.#args];
    const [command = '', ...rest] = [...this.launcher, ...own];
    const child = spawn(command, rest, {
      env: { HOME: folder, PATH: process.env.PATH },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    this.#log = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#log = (this.#log + text).slice(-KEPT_LOG);
    });
    child.once('exit', (code) => {
      if (this.#child === child && code !== 0) this.crashed++;
    });
    return child;
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** The exit code. */
  async stop(): Promise<number | null> {
    return this.#end('SIGTERM');
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null> {
    const child = this.#child;
    if (child === null) return null;
    this.#child = null;
    const exited = once(child, 'exit');
    child.kill(signal);
    if (child.exitCode === null && child.signalCode === null) await exited;
    return child.exitCode;
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name);
  }

  token(name: 'admin' | 'submitter' | `tokens/${string}` = 'admin'): string {
    return readFileSync(join(this.#folder, 'data', `${name}.token`), 'utf8').trim();
  }

  async ask(
    method: string,
    path: string,
    {
      body,
      token = this.token(),
      headers = {},
      signal,
    }: { body?: string; token?: string; headers?: Record<string, string>; signal?: AbortSignal } = {},
  ): Promise<NodeAnswer> {
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...headers },
      ...(body === undefined ? {} : { body }),
      ...(signal === undefined ? {} : { signal }),
    });
    return { status: response.status, text: await response.text(), headers: response.headers };
  }
}
