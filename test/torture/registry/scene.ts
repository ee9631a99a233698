import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Failures } from '../topic.ts';
import { EventReader } from './event-reader.ts';
import { Ledger } from './ledger.ts';
import { connectTo } from './sms-client.ts';
import { SmsLives } from './sms-life.ts';
import { TrailCheck } from './trail-check.ts';
import { Watcher } from './watcher.ts';
import { Writers } from './writers.ts';

const WATCHERS = 3;
/** How long a watcher has to know what the registry knows. */
const CONVERGE_MS = 15_000;
/** Heartbeats are checked too, so they come often. */
const config = '[limits]\nheartbeat_ms = 200\n';

export interface SceneOptions {
  readonly failures: Failures;
  /** Where its data are. @default a new directory */
  readonly directory?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** A registry with writers, watchers and somebody who keeps the books. */
export class Scene {
  readonly directory: string;
  readonly failures: Failures;
  readonly lives: SmsLives;
  readonly ledger: Ledger;
  readonly trail: TrailCheck;
  readonly #watchers: Watcher[] = [];
  #reader: EventReader | null = null;

  private constructor(options: SceneOptions & { readonly directory: string }) {
    const { directory, failures, env = {} } = options;
    this.directory = directory;
    this.failures = failures;
    writeFileSync(join(directory, 'sms.toml'), config);
    const args = ['--config', join(directory, 'sms.toml')];
    this.lives = new SmsLives({ directory, args, env, failures });
    this.ledger = new Ledger(failures);
    this.trail = new TrailCheck(directory, failures);
  }

  static async open(options: SceneOptions): Promise<Scene> {
    const directory = options.directory ?? mkdtempSync(join(tmpdir(), 'spear-torture-'));
    const scene = new Scene({ ...options, directory });
    await scene.lives.start();
    await scene.#watch();
    return scene;
  }

  token(name: 'admin' | 'node'): string {
    return readFileSync(join(this.directory, `${name}.token`), 'utf8').trim();
  }

  writers(seed: number, mayRefuse = false): Writers {
    const { ledger, failures } = this;
    return new Writers({
      addresses: this.lives.addresses,
      token: this.token('admin'),
      ledger,
      failures,
      seed,
      mayRefuse,
    });
  }

  /** With nobody writing: everything acknowledged is there, and every watcher has exactly what is there. */
  async check(when: string): Promise<void> {
    const client = connectTo(await this.lives.serving(), this.token('node'));
    try {
      const { revision, servers } = await client.list();
      this.ledger.check(servers, revision, when);
      const listed = [...servers].sort((a, b) => (a.id < b.id ? -1 : 1));
      for (const [index, watcher] of this.#watchers.entries()) {
        if (!(await watcher.reaches(revision, CONVERGE_MS)))
          this.#differs(watcher, `${when}: watcher ${index} is late`);
        else if (!isDeepStrictEqual(watcher.servers(), listed))
          this.#differs(watcher, `${when}: watcher ${index} differs`);
      }
      await this.#checkReader(revision, servers.map(({ id }) => id).sort(), when);
    } finally {
      client.close();
    }
  }

  get wrongAtWatchers(): number {
    return this.#watchers.reduce((sum, { wrong }) => sum + wrong, this.#reader?.wrong ?? 0);
  }

  get watchedEvents(): number {
    return this.#watchers.reduce((sum, { events }) => sum + events, 0);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#watchers.map((watcher) => watcher.close()), this.#reader?.close()]);
    await this.lives.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }

  async #watch(): Promise<void> {
    const { lives, ledger, failures } = this;
    const token = this.token('node');
    for (let index = 0; index < WATCHERS; index++) {
      this.#watchers.push(new Watcher({ name: `watcher ${index}`, lives, token, ledger, failures }));
    }
    const client = connectTo(lives.addresses, token);
    this.#reader = new EventReader(lives, this.token('admin'), failures, await client.list());
    client.close();
  }

  async #checkReader(revision: number, ids: readonly string[], when: string): Promise<void> {
    const reader = this.#reader;
    if (reader === null) return;
    const deadline = performance.now() + CONVERGE_MS;
    while (reader.revision < revision && performance.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 5));
    if (reader.revision < revision || !isDeepStrictEqual(reader.ids(), ids)) {
      reader.wrong++;
      this.failures.add(
        `${when}: the reader of events is at ${reader.revision} of ${revision}, with ${reader.ids().length} of ${ids.length} ids`,
      );
    }
  }

  #differs(watcher: Watcher, text: string): void {
    watcher.wrong++;
    this.failures.add(text);
  }
}
