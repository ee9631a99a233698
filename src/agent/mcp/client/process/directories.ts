import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';

const OWNER_ONLY = 0o700;
const HASH_CHARS = 12;

/** Lifetime of a HOME: under the state directory, or removed with a run. */
export type HomePlace = { readonly stateDir: string } | { readonly run: string };

/** The server program that a HOME belongs to. */
interface HomeOwner {
  readonly home: HomePlace;
  readonly serverId: string;
  readonly command: string;
  readonly args: readonly string[];
}

/** Private directories of stdio servers: a HOME for each program, a TMPDIR for each start. */
export class ServerDirectories {
  readonly #tmpDir: string;
  #tmpRoot: Promise<string> | null = null;
  #starts = 0;

  constructor(tmpDir: string) {
    this.#tmpDir = tmpDir;
  }

  /**
   * Retained between runs: package runners cache their downloads there, which take seconds. Another program with the same
   * server id gets another HOME, so it cannot read, for example, a login of the first.
   */
  async home({ home, serverId, command, args }: HomeOwner): Promise<string> {
    const program = shortHash(JSON.stringify([command, ...args]));
    const parent = 'run' in home ? await this.#runDir(home.run) : join(home.stateDir, 'home');
    const path = join(parent, `${serverId}-${program}`);
    await mkdir(path, { recursive: true, mode: OWNER_ONLY });
    return path;
  }

  /** Removes the homes of a run. Its servers must have ended. */
  async removeRun(run: string): Promise<void> {
    if (this.#tmpRoot !== null) await removeTree(await this.#runDir(run));
  }

  /** Below the temporary root, which the watchdog removes if this process dies. */
  async #runDir(run: string): Promise<string> {
    return join(await this.tmpRoot(), `run-${shortHash(run)}`);
  }

  /** The parent of all temporary directories of this pool. */
  tmpRoot(): Promise<string> {
    this.#tmpRoot ??= mkdtemp(join(this.#tmpDir, 'spear-mcp-')).catch((error) => {
      this.#tmpRoot = null;
      throw error;
    });
    return this.#tmpRoot;
  }

  /** Never the same path twice: the value of TMPDIR identifies the processes of one start. */
  async makeTmp(): Promise<string> {
    this.#starts += 1;
    const name = String(this.#starts);
    const path = join(await this.tmpRoot(), name);
    await mkdir(path, { mode: OWNER_ONLY });
    return path;
  }

  async close(): Promise<void> {
    const root = this.#tmpRoot;
    this.#tmpRoot = null;
    if (root !== null) await removeTree(await root);
  }
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, HASH_CHARS);
}

/** Retries, because a dying server may still write. Ignores a final failure. */
export async function removeTree(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3, retryDelay: 20 }).catch(() => {});
}
