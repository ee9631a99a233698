import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startEtcd } from '../../../scripts/engines/etcd-cluster.ts';
import type { Cluster } from '../../../scripts/engines/member.ts';
import { Random } from '../random.ts';
import { SmsLives } from '../registry/sms-life.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { Follower } from './follower.ts';

const WRITERS = 3;
const REGISTRIES = 2;
const WRITE_MS = 30_000;
/** A write that nobody acknowledges for longer is a failure. */
const PATIENCE_MS = 90_000;
const SETTLE_MS = 30_000;
const MAX_QUIET_MS = 1_500;
const MAX_PAUSED_MS = 6_000;

/** Acknowledged writes while registries and members of their etcd are killed: none lost, each told of once and in order. */
export async function etcdKills(effort: Effort): Promise<Finding> {
  const writes = effort.of(60, 1_000);
  const failures = new Failures();
  const directory = mkdtempSync(join(tmpdir(), 'spear-torture-etcd-'));
  const cluster = await startEtcd();
  const store = `etcd://${cluster.members.map(({ address }) => address).join(',')}`;
  const lives = Array.from({ length: REGISTRIES }, (_, n) => {
    const own = join(directory, `sms-${n}`);
    mkdirSync(own);
    return new SmsLives({ directory: own, args: ['--store', store, '--insecure-no-auth'], failures });
  });
  const followers: Follower[] = [];
  const acknowledged = new Map<string, number>();
  const ended = new AbortController();
  let kills = 0;
  try {
    await Promise.all(lives.map((life) => life.start()));
    const [first, second] = lives.map(({ addresses }) => addresses.grpc);
    if (first === undefined || second === undefined) throw new Error('two registries were started');
    followers.push(new Follower('a', [first, second], failures), new Follower('b', [second, first], failures));
    const chaos = (async () => {
      while (!ended.signal.aborted) {
        await pause(effort.random.below(MAX_QUIET_MS));
        if (ended.signal.aborted) return;
        await kill(effort, lives, cluster);
        kills++;
      }
    })();
    const each = Math.ceil(writes / WRITERS);
    const seeds = Array.from({ length: WRITERS }, () => effort.random.seed());
    await Promise.all(
      seeds.map(async (seed, writer) => {
        const random = new Random(seed);
        for (let n = 0; n < each && !effort.isOver(); n++) {
          const id = `w${writer}-${n}`;
          acknowledged.set(id, await write(lives, random, id));
          effort.progress(acknowledged.size, writes);
        }
      }),
    );
    ended.abort();
    await chaos;
    await settled(followers, acknowledged);
  } catch (error) {
    failures.add(`after ${acknowledged.size} writes and ${kills} kills: ${error}`);
  } finally {
    ended.abort();
    await Promise.all(followers.map((follower) => follower.close()));
  }
  let lost = 0;
  for (const [id, revision] of acknowledged) {
    for (const { seen } of followers) {
      if (seen.get(id) === revision) continue;
      lost++;
      failures.add(`${id} was acknowledged at ${revision}, and a follower has ${seen.get(id) ?? 'nothing'}`);
    }
  }
  await Promise.all(lives.map((life) => life.kill()));
  await cluster.stop();
  rmSync(directory, { recursive: true, force: true });
  const events = followers.reduce((sum, follower) => sum + follower.events, 0);
  const lists = followers.reduce((sum, follower) => sum + follower.lists, 0);
  return {
    what: 'kill -9 of registries and members of etcd under writes',
    count: acknowledged.size,
    lost: lost + followers.reduce((sum, { wrong }) => sum + wrong, 0),
    crashed: lives.reduce((sum, { crashed }) => sum + crashed, 0),
    measured: `${kills} kills, ${events} events and ${lists} lists at two followers`,
    failures: failures.list(),
  };
}

/** One at a time, so that there always is a quorum and a registry to come back to. */
async function kill({ random, short }: Effort, lives: readonly SmsLives[], { members }: Cluster): Promise<void> {
  if (random.chance(2)) {
    const life = random.pick(lives);
    await life.kill();
    await pause(random.below(MAX_QUIET_MS));
    await life.start();
    return;
  }
  const member = random.pick(members);
  if (!short && random.chance(3)) {
    member.pause();
    await pause(random.below(MAX_PAUSED_MS));
    member.resume();
    return;
  }
  await member.kill();
  await pause(random.below(MAX_QUIET_MS));
  await member.start();
}

/** Repeated until a registry says yes: the record is the same, so a write that was made is found and not made again. */
async function write(lives: readonly SmsLives[], random: Random, id: string): Promise<number> {
  const body = JSON.stringify({ server_id: id, display_name: id, transport: 'stdio', stdio: { command: 'x' } });
  const deadline = performance.now() + PATIENCE_MS;
  for (let last = 'nobody answered'; ; ) {
    try {
      const answer = await fetch(`${random.pick(lives).addresses.http}/admin/api/mcp/servers/${id}`, {
        method: 'PUT',
        body,
        headers: { 'content-type': 'application/json' },
        signal: AbortSignal.timeout(WRITE_MS),
      });
      const text = await answer.text();
      if (answer.ok) return (JSON.parse(text) as { mod_revision: number }).mod_revision;
      last = `${answer.status} ${text}`;
      if (answer.status < 500) throw new Error(`the write of ${id} was refused: ${last}`);
    } catch (error) {
      if (error instanceof Error && error.message.startsWith('the write of')) throw error;
      last = String(error);
    }
    if (performance.now() > deadline) throw new Error(`nobody took ${id} within ${PATIENCE_MS} ms: ${last}`);
    await pause(random.below(100));
  }
}

/** Until both know everything, or the time is up: what is missing then is lost. */
async function settled(followers: readonly Follower[], acknowledged: ReadonlyMap<string, number>): Promise<void> {
  const deadline = performance.now() + SETTLE_MS;
  const isWhole = ({ seen }: Follower) => [...acknowledged.keys()].every((id) => seen.has(id));
  while (!followers.every(isWhole) && performance.now() < deadline) await pause(50);
}
