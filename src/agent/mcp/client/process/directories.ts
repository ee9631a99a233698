import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';

const OWNER_ONLY = 0o700;
const HASH_CHARS = 12;

/** Where a HOME is: under a directory that stays, or one that goes with a run. */
export type HomePlace = { readonly stateDir: string } | { readonly run: string };

/** Whose HOME it is. */
export interface HomeOwner {
  readonly home: HomePlace;
  readonly serverId: string;
  readonly command: string;
  readonly args: readonly string[];
}

/** The private directories of stdio servers: a HOME as long as its owner says, a TMPDIR for one run of a server. */
export class ServerDirectories {
  readonly #tmpDir: string;
  #tmpRoot: Promise<string> | null = null;
  #starts = 0;

  constructor(tmpDir: string) {
    this.#tmpDir = tmpDir;
  }

  /**
   * Kept between runs, because package runners keep their downloads there: an empty one costs seconds each start. Another
   * program under the same id gets another one: what the first left there (a login, say) is not for it.
   */
  async home({ home, serverId, command, args }: HomeOwner): Promise<string> {
    const program = shortHash(JSON.stringify([command, ...args]));
    const parent = 'run' in home ? await this.#runDir(home.run) : join(home.stateDir, 'home');
    const path = join(parent, `${serverId}-${program}`);
    await mkdir(path, { recursive: true, mode: OWNER_ONLY });
    return path;
  }

  /** The run has ended, and its servers with it. */
  async removeRun(run: string): Promise<void> {
    if (this.#tmpRoot !== null) await removeTree(await this.#runDir(run));
  }

  /** Among the temporary ones: what watches over this process removes them where it cannot do so itself. */
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

  /** Never the same path twice: the value of TMPDIR also tells which processes belong to one run of a server. */
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

/** What a server still writes while it dies can make the first attempts fail. A rest is left to the system. */
export async function removeTree(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3, retryDelay: 20 }).catch(() => {});
}
