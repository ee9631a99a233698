import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';

const OWNER_ONLY = 0o700;
const HASH_CHARS = 12;

/** Whose HOME it is. */
export interface HomeOwner {
  readonly serverId: string;
  readonly command: string;
  readonly args: readonly string[];
}

/** The private directories of stdio servers: a HOME that stays, a TMPDIR for one run of a server. */
export class ServerDirectories {
  readonly #stateDir: string;
  readonly #tmpDir: string;
  #tmpRoot: Promise<string> | null = null;
  #runs = 0;

  constructor(stateDir: string, tmpDir: string) {
    this.#stateDir = stateDir;
    this.#tmpDir = tmpDir;
  }

  /**
   * Kept between runs, because package runners keep their downloads there: an empty one costs seconds each start. Another
   * program under the same id gets another one: what the first left there (a login, say) is not for it.
   */
  async home({ serverId, command, args }: HomeOwner): Promise<string> {
    const program = createHash('sha256')
      .update(JSON.stringify([command, ...args]))
      .digest('hex')
      .slice(0, HASH_CHARS);
    const path = join(this.#stateDir, 'home', `${serverId}-${program}`);
    await mkdir(path, { recursive: true, mode: OWNER_ONLY });
    return path;
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
    this.#runs += 1;
    const name = String(this.#runs);
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

/** What a server still writes while it dies can make the first attempts fail. A rest is left to the system. */
export async function removeTree(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3, retryDelay: 20 }).catch(() => {});
}
