import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import type { RunRecord, RunStatus } from '../../src/server/records/run.ts';
import { root, type Serving, type Stage } from '../demo-stage.ts';

const WAIT_MS = 60_000;
const LOOK_MS = 20;
const RUNS = '/v1/namespaces/default/runs';

/** Keys of the fixtures. They protect nothing. */
export const AUDIT_KEY = 'the audit key of the compat fixtures is no secret';
export const JOURNAL_KEY = 'the journal key of the compat fixtures is no secret';

/** More than a JetStream message carries inline, so that it becomes an object. */
export const LARGE_INPUT = 'a line of the input\n'.repeat(1_000);

/** Preloaded into the recorded processes: audit files name the host, and a fixture must not name this machine. */
const hostName = 'import os from "node:os"; os.hostname = () => "fixture";';
export const anonymous = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hostName)}` };

/** The tasks of the recorded nodes: the file name of each is that of its module in fixtures/c. */
const tasks: Readonly<Record<string, string>> = {
  hello: 'wasm = "hello.wasm"',
  exit: 'wasm = "exit.wasm"\nargs = ["3"]',
  spin: 'wasm = "spin.wasm"\n[retry]\nmax_attempts = 1',
  sleep: 'wasm = "sleep.wasm"\nargs = ["4000"]',
  echo: 'wasm = "echo.wasm"',
  payer:
    'wasm = "files.wasm"\n[config]\n"mcp.enabled" = true\n"mcp.default_server_ids" = ["bank"]\n[budgets]\ntokens_per_day = 1000000',
};
const modules = ['hello', 'test/exit', 'test/spin', 'test/sleep', 'echo', 'files'];

const pay = { id: 'pay-1', name: 'bank_pay', arguments: { invoice: 'A-1', amount: 100 } };
const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
const model = {
  turns: [
    { when: { role: 'user' }, reply: { tool_calls: [pay], usage }, repeat: true },
    { when: { role: 'tool' }, reply: { content: 'all settled', usage }, repeat: true },
  ],
};

/** Writes the config, the model script and the files of the tasks into `folder`. */
export function writeNodeConfig(folder: string, extra = ''): void {
  mkdirSync(join(folder, 'tasks.d'), { recursive: true });
  writeFileSync(join(folder, 'model.json'), `${JSON.stringify(model, null, 1)}\n`);
  const config = [
    '[backends.main]\nkind = "scripted"\nscript = "model.json"',
    '[mcp]\nstdio = "allow"',
    '[node]\nname = "n1"\npark_after_ms = 300\nlease_ms = 2000',
    ...(extra === '' ? [] : [extra]),
  ];
  writeFileSync(join(folder, 'config.toml'), `${config.join('\n\n')}\n`);
  for (const [name, body] of Object.entries(tasks)) {
    writeFileSync(join(folder, 'tasks.d', `${name}.toml`), `name = "${name}"\n${body}\n`);
  }
  for (const path of modules) {
    const file = `${path.split('/').at(-1)}.wasm`;
    cpSync(join(root, 'fixtures/c', `${path}.wasm`), join(folder, 'tasks.d', file));
  }
}

/** A node process whose data is kept as a fixture, with one slot so that runs queue. */
export class RecordedNode {
  readonly #stage: Stage;
  readonly #folder: string;
  readonly #flags: readonly string[];
  #serving: Serving | null = null;

  /** `folder`: of the stage; it holds what {@link writeNodeConfig} wrote. */
  constructor(stage: Stage, folder: string, flags: readonly string[]) {
    this.#stage = stage;
    this.#folder = folder;
    this.#flags = flags;
  }

  get address(): string {
    return `unix:${this.#stage.path(this.#folder, 'data/sockets/http.sock')}`;
  }

  async start(): Promise<void> {
    const own = ['--data', `${this.#folder}/data`, '--config', `${this.#folder}/config.toml`];
    const env = { ...anonymous, AUDIT_KEY, JOURNAL_KEY, PATH: `${this.#stage.path('bin')}:${process.env.PATH}` };
    const flags = [...own, '--listen', '127.0.0.1:0', '--slots', '1', ...this.#flags];
    this.#serving = await this.#stage.serve('spearlet', flags, env);
  }

  async kill(): Promise<void> {
    if (this.#serving !== null) await this.#stage.end(this.#serving.child, 'SIGKILL');
    this.#serving = null;
  }

  async submit(task: string, input = ''): Promise<string> {
    const { id } = await this.#ask('POST', `/v1/namespaces/default/tasks/${task}/runs`, input);
    return id;
  }

  async cancel(id: string): Promise<void> {
    await this.#ask('POST', `${RUNS}/${id}/cancel`, '');
  }

  /** Waits until the run has this status. */
  async until(id: string, status: RunStatus): Promise<RunRecord> {
    for (const last = performance.now() + WAIT_MS; performance.now() < last; await delay(LOOK_MS)) {
      const run = await this.#ask('GET', `${RUNS}/${id}`);
      if (run.status === status) return run;
    }
    throw new Error(`the run ${id} is not ${status} after ${WAIT_MS} ms`);
  }

  async run(task: string, status: RunStatus, input = ''): Promise<RunRecord> {
    return this.until(await this.submit(task, input), status);
  }

  async #ask(method: string, path: string, body?: string): Promise<RunRecord> {
    const token = readFileSync(this.#stage.path(this.#folder, 'data/admin.token'), 'utf8').trim();
    const init = { method, headers: { authorization: `Bearer ${token}` }, ...(body === undefined ? {} : { body }) };
    const answer = await fetch(`${this.#serving?.says.http}${path}`, init);
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as RunRecord;
  }
}

/**
 * Ended runs of every status: succeeded, failed, cancelled and dead. The node is running before and after. `cancelled`:
 * the status of the run that is cancelled.
 */
export async function recordEndedRuns(node: RecordedNode, cancelled: 'queued' | 'parked'): Promise<void> {
  await node.run('hello', 'succeeded', 'an input');
  await node.run('exit', 'failed');
  if (cancelled === 'parked') await node.cancel((await node.run('echo', 'parked')).id);
  const { id: lost } = await node.run('spin', 'running');
  if (cancelled === 'queued') await node.cancel(await node.submit('hello'));
  await node.kill();
  await node.start();
  await node.until(lost, 'dead');
}

/** Runs that have not ended: parked for a client, parked for a time, running and queued. The node is killed. */
export async function recordOpenRuns(node: RecordedNode): Promise<void> {
  await node.run('echo', 'parked');
  await node.run('sleep', 'parked');
  await node.run('spin', 'running');
  await node.submit('hello', LARGE_INPUT);
  await node.kill();
}

/** Keeps of a data folder what outlives its process: no tokens, sockets, locks or logs of SQLite. */
export function keepData(from: string, to: string): void {
  for (const file of readdirSync(from, { recursive: true, encoding: 'utf8' })) {
    if (file.endsWith('.db')) compact(join(from, file));
  }
  const dropped = /(?:^|\/)(?:sockets|servers|endpoint\.json|cache)$|\.(?:token|lock|sock|db-wal|db-shm)$/;
  rmSync(to, { recursive: true, force: true });
  cpSync(from, to, { recursive: true, filter: (path) => !dropped.test(path) });
}

/** Moves the write-ahead log into the file, and drops free pages. */
function compact(path: string): void {
  const db = new DatabaseSync(path);
  db.exec('PRAGMA journal_mode = DELETE; VACUUM');
  db.close();
}
