import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findEngine } from './bring.ts';
import { type Cluster, ProcessMember } from './member.ts';
import { natsServer } from './nats-server.ts';
import { freePorts, spawnOwned, untilReady } from './owned-process.ts';

export interface NatsOptions {
  /** @default 3 */
  readonly members?: number;
  /** Lines of the configuration beside those that make the cluster: users, accounts, TLS. */
  readonly config?: string;
  /** What `sync_interval` of JetStream is. @default '2m', its own: no test pulls a plug */
  readonly sync?: string;
  /** Whether clients are told where the other members are. @default true */
  readonly advertise?: boolean;
  /** Folder of the data of a single member. @default a temporary one */
  readonly store?: string;
}

/** Real nats-servers with JetStream on loopback, all ready. They end with `stop`, and at the latest with this process. */
export async function startNats(options: NatsOptions = {}): Promise<Cluster> {
  const { members: count = 3, config = '', sync = '2m', advertise = true, store } = options;
  const binary = findEngine(natsServer);
  const folder = mkdtempSync(join(tmpdir(), 'spear-nats-'));
  const ports = await freePorts(3 * count);
  const names = Array.from({ length: count }, (_, index) => `n${index}`);
  const routes = names.map((_, index) => `nats-route://127.0.0.1:${ports[count + index]}`);
  const members = names.map((name, index) => {
    const log = join(folder, `${name}.log`);
    const file = join(folder, `${name}.conf`);
    const monitor = `http://127.0.0.1:${ports[2 * count + index]}`;
    const cluster =
      count === 1
        ? ''
        : `cluster { name: spear, listen: "127.0.0.1:${ports[count + index]}", routes: ${JSON.stringify(routes)}, no_advertise: ${!advertise} }`;
    writeFileSync(
      file,
      `server_name: ${name}
listen: "127.0.0.1:${ports[index]}"
http: "127.0.0.1:${ports[2 * count + index]}"
jetstream { store_dir: ${JSON.stringify(store ?? join(folder, name))}, sync_interval: ${sync} }
${cluster}
${config}
`,
    );
    const isHealthy = async () => (await fetch(`${monitor}/healthz`, { signal: AbortSignal.timeout(2_000) })).ok;
    return new ProcessMember(name, `127.0.0.1:${ports[index]}`, {
      spawn: () => spawnOwned(binary, ['--config', file], { folder, log }),
      ready: (process) => untilReady(isHealthy, `nats-server ${name}`, process, log),
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
