import { mkdtempSync, rmSync } from 'node:fs';
import { get as getPlain } from 'node:http';
import { get as getSecure } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { findEngine } from './bring.ts';
import { etcd } from './etcd.ts';
import { type Cluster, ProcessMember } from './member.ts';
import { freePorts, spawnOwned, untilReady } from './owned-process.ts';

export interface EtcdOptions {
  /** @default 3 */
  readonly members?: number;
  /** Beside those that make the cluster. */
  readonly flags?: readonly string[];
  /** Members speak TLS to their clients; PEM texts, `cert` and `key` for one that asks who is there. @default in clear */
  readonly tls?: { readonly ca: string; readonly cert?: string; readonly key?: string };
}

/** Real etcd members on loopback, all ready. They end with `stop`, and at the latest with this process. */
export async function startEtcd({ members: count = 3, flags = [], tls }: EtcdOptions = {}): Promise<Cluster> {
  const binary = findEngine(etcd);
  const folder = mkdtempSync(join(tmpdir(), 'spear-etcd-'));
  const ports = await freePorts(2 * count);
  const names = Array.from({ length: count }, (_, index) => `m${index}`);
  const peerOf = (index: number) => `http://127.0.0.1:${ports[count + index]}`;
  const cluster = names.map((name, index) => `${name}=${peerOf(index)}`).join(',');
  const members = names.map((name, index) => {
    const client = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${ports[index]}`;
    const log = join(folder, `${name}.log`);
    const args = [
      ...['--name', name, '--data-dir', join(folder, name)],
      ...['--initial-cluster', cluster, '--initial-cluster-state', 'new', '--initial-cluster-token', folder],
      ...['--listen-peer-urls', peerOf(index), '--initial-advertise-peer-urls', peerOf(index)],
      ...['--listen-client-urls', client, '--advertise-client-urls', client],
      ...flags,
    ];
    const isHealthy = async () => /"health": ?"true"/.test(await answerOf(`${client}/health`, tls));
    return new ProcessMember(name, `127.0.0.1:${ports[index]}`, {
      spawn: () => spawnOwned(binary, args, { folder, log }),
      ready: (process) => untilReady(isHealthy, `etcd ${name}`, process, log),
    });
  });
  const stop = async () => {
    await Promise.all(members.map((member) => member.kill()));
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await Promise.all(members.map((member) => member.start()));
  } catch (error) {
    await stop();
    throw error;
  }
  return { members, stop };
}

/** The text of an answer; it is empty where it is an error. */
function answerOf(url: string, tls: EtcdOptions['tls']): Promise<string> {
  const get = tls === undefined ? getPlain : getSecure;
  return new Promise((resolve, reject) => {
    const asked = get(url, { timeout: 2_000, ...tls }, (answer) => {
      text(answer).then((read) => resolve(answer.statusCode === 200 ? read : ''), reject);
    });
    asked.once('timeout', () => asked.destroy(new Error('no answer')));
    asked.once('error', reject);
  });
}
