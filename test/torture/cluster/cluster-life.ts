import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startEtcd } from '../../../scripts/engines/etcd-cluster.ts';
import type { Cluster } from '../../../scripts/engines/member.ts';
import { startNats } from '../../../scripts/engines/nats-cluster.ts';
import { ledgerRecord, type NodeAnswer, NodeLives, writeNodeFolder } from '../node/node-life.ts';
import { SmsLives } from '../registry/sms-life.ts';
import type { Failures } from '../topic.ts';
import { CutConnections } from './cut-connections.ts';

export const LEASE_MS = 2_000;
const REGISTRIES = 2;
/** One that says nothing for so long is paused, or waits for servers that are: another one may answer. */
const ANSWER_MS = 4_000;
const WRITE_MS = 5_000;
const AGAIN_MS = 100;

/** What a tool was told to do. */
export interface Effect {
  readonly run: string;
  readonly ordinal: string;
  readonly attempt: number;
}

/** Three nats-servers and nodes that share them, three etcds and registries that the nodes follow. */
export class ClusterLife {
  readonly #folder = mkdtempSync(join(tmpdir(), 'spear-cluster-'));
  readonly #trail = join(this.#folder, 'trail');
  readonly nats: Cluster;
  readonly etcd: Cluster;
  readonly network: readonly CutConnections[];
  readonly registries: readonly SmsLives[];
  readonly nodes: NodeLives[] = [];
  /** Engines do not keep this process alive, and it waits for nothing else while one ends. */
  readonly #alive = setInterval(() => {}, 60_000);
  #asked = 0;
  #changes = 0;

  private constructor(nats: Cluster, etcd: Cluster, network: readonly CutConnections[], failures: Failures) {
    this.nats = nats;
    this.etcd = etcd;
    this.network = network;
    const store = `etcd://${addresses(etcd.members)}`;
    this.registries = Array.from({ length: REGISTRIES }, (_, at) => {
      const directory = join(this.#folder, `sms-${at}`);
      mkdirSync(directory);
      return new SmsLives({ directory, args: ['--store', store, '--insecure-no-auth'], failures });
    });
  }

  static async start(nodes: number, labels: readonly string[], failures: Failures): Promise<ClusterLife> {
    // The servers tell nobody of each other: nodes would go round what lies between.
    const [nats, etcd] = await Promise.all([startNats({ advertise: false }), startEtcd()]);
    const network = await Promise.all(nats.members.map(({ address }) => CutConnections.open(address)));
    const life = new ClusterLife(nats, etcd, network, failures);
    try {
      await Promise.all(life.registries.map((registry) => registry.start()));
      await life.changeRecord();
      await life.#startNodes(nodes, labels);
      return life;
    } catch (error) {
      await life.end();
      throw error;
    }
  }

  async #startNodes(count: number, labels: readonly string[]): Promise<void> {
    const sms = this.registries.map((registry) => `http://${registry.addresses.grpc}`).join(',');
    for (let at = 0; at < count; at++) {
      const folder = join(this.#folder, `node-${at}`);
      const bounds = `lease_ms = ${LEASE_MS}\ndrain_ms = 500\nslots = 16\nmax_queued = 10000`;
      // Nobody is there to be asked about calls of which nobody knows whether they were made.
      writeNodeFolder(folder, { turnMs: 30, node: `name = "node-${at}"\napprove = "deny"\n${bounds}`, labels });
      const queue = ['--queue', `nats://${addresses(this.network)}`];
      this.nodes.push(new NodeLives(folder, queue, ['--task-dir', join(folder, 'tasks.d'), '--sms', sms]));
    }
    await Promise.all(this.nodes.map((node) => node.start()));
  }

  /** The record of the tools' server gets another name, on whichever registry takes it. */
  async changeRecord(): Promise<void> {
    const record = { ...ledgerRecord(this.#trail), display_name: `the ledger ${++this.#changes}` };
    for (;;) {
      for (const { addresses: own } of this.registries) {
        const answer = await fetch(`${own.http}/admin/api/mcp/servers/ledger`, {
          method: 'PUT',
          body: JSON.stringify(record),
          headers: { 'content-type': 'application/json' },
          signal: AbortSignal.timeout(WRITE_MS),
        }).catch(() => null);
        await answer?.text().catch(() => '');
        if (answer?.ok) return;
      }
      await delay(AGAIN_MS);
    }
  }

  /** From whichever node answers; null: none does. Each question begins with another one. */
  async ask(method: string, path: string, options?: Parameters<NodeLives['ask']>[2]): Promise<NodeAnswer | null> {
    const first = this.#asked++;
    for (let at = 0; at < this.nodes.length; at++) {
      const node = this.nodes[(first + at) % this.nodes.length];
      try {
        const answer = await node?.ask(method, path, { ...options, signal: AbortSignal.timeout(ANSWER_MS) });
        if (answer !== undefined && answer.status < 500) return answer;
      } catch {
        // It is dead, paused, or not up again.
      }
    }
    return null;
  }

  /** In the order in which the tools' servers saw them. */
  effects(): Effect[] {
    const lines = existsSync(this.#trail) ? readFileSync(this.#trail, 'utf8').split('\n') : [];
    return lines
      .filter((line) => line !== '')
      .map((line) => {
        const [run = '', ordinal = '', attempt] = line.split(' ');
        return { run, ordinal, attempt: Number(attempt) };
      });
  }

  get crashed(): number {
    return [...this.nodes, ...this.registries].reduce((sum, { crashed }) => sum + crashed, 0);
  }

  async end(): Promise<void> {
    for (const node of this.nodes) node.signal('SIGCONT');
    await Promise.all([...this.nodes, ...this.registries].map((one) => one.kill()));
    for (const between of this.network) between.close();
    await Promise.all([this.nats.stop(), this.etcd.stop()]);
    clearInterval(this.#alive);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

const addresses = (all: readonly { readonly address: string }[]) => all.map(({ address }) => address).join(',');
