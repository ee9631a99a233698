import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Cluster } from '../../../scripts/engines/member.ts';
import { startNats } from '../../../scripts/engines/nats-cluster.ts';
import { type NodeAnswer, NodeLives, writeNodeFolder } from '../node/node-life.ts';

export const LEASE_MS = 2_000;

/** Three nats-servers, and nodes that share them. */
export class ClusterLife {
  readonly folder = mkdtempSync(join(tmpdir(), 'spear-cluster-'));
  readonly nodes: readonly NodeLives[];
  readonly servers: Cluster;
  readonly #folders: readonly string[];
  /** Engines do not keep this process alive, and it waits for nothing else while one ends. */
  readonly #alive = setInterval(() => {}, 60_000);

  private constructor(servers: Cluster, count: number, labels: readonly string[]) {
    this.servers = servers;
    const queue = `nats://${servers.members.map(({ address }) => address).join(',')}`;
    this.#folders = Array.from({ length: count }, (_, at) => join(this.folder, `node-${at}`));
    this.nodes = this.#folders.map((folder, at) => {
      const node = `name = "node-${at}"\nlease_ms = ${LEASE_MS}\ndrain_ms = 500\nslots = 16\nmax_queued = 10000`;
      writeNodeFolder(folder, { turnMs: 30, node, labels });
      return new NodeLives(folder, ['--queue', queue]);
    });
  }

  static async start(nodes: number, labels: readonly string[]): Promise<ClusterLife> {
    const servers = await startNats();
    const life = new ClusterLife(servers, nodes, labels);
    try {
      await Promise.all(life.nodes.map((node) => node.start()));
      return life;
    } catch (error) {
      await life.end();
      throw error;
    }
  }

  /** From whichever node answers. */
  async ask(method: string, path: string, options?: Parameters<NodeLives['ask']>[2]): Promise<NodeAnswer | null> {
    for (const node of this.nodes) {
      try {
        const answer = await node.ask(method, path, { ...options, signal: AbortSignal.timeout(ANSWER_MS) });
        if (answer.status < 500) return answer;
      } catch {
        // It is dead, paused, or not up again.
      }
    }
    return null;
  }

  /** What the servers of all nodes were told to do: run and ordinal of each call. */
  effects(): string[] {
    return this.#folders.flatMap((folder) => {
      const trail = join(folder, 'trail');
      const lines = existsSync(trail) ? readFileSync(trail, 'utf8').trim().split('\n') : [];
      return lines.filter((line) => line !== '').map((line) => line.split(' ').slice(0, 2).join(' '));
    });
  }

  get crashed(): number {
    return this.nodes.reduce((sum, { crashed }) => sum + crashed, 0);
  }

  async end(): Promise<void> {
    for (const node of this.nodes) node.signal('SIGCONT');
    await Promise.all(this.nodes.map((node) => node.kill()));
    await this.servers.stop();
    clearInterval(this.#alive);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const ANSWER_MS = 10_000;
