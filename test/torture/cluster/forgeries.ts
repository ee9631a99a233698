import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, headers, type NatsConnection } from '@nats-io/transport-node';
import { startNats } from '../../../scripts/engines/nats-cluster.ts';
import { parseJson } from '../../../src/base/json.ts';
import { isEntryOf } from '../../../src/server/queue/nats/run-entries.ts';
import { RUNS_BUCKET } from '../../../src/server/queue/nats/streams.ts';
import { hasEnded, type RunRecord } from '../../../src/server/records/run.ts';
import { NodeLives, writeNodeFolder } from '../node/node-life.ts';
import type { Random } from '../random.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';

const AGENT = '/v1/namespaces/default/tasks/agent/runs';
const RUNS = '/v1/namespaces/default/runs';
const TO_THE_END_MS = 60_000;
const LOOK_MS = 50;
const ANSWER_MS = 15_000;
const BATCH = 50;

const wrongValues: readonly unknown[] = [
  null,
  7,
  -1,
  1e308,
  '',
  '../../x',
  'team-b',
  'succeeded',
  'parked',
  [],
  {},
  [[[]]],
  { object: 'other-run/input' },
  { inline: 'not base64 ' },
  { kind: 'time', atMs: 'soon' },
  { kind: 'approval' },
  'x'.repeat(200_000),
];
const statuses = ['queued', 'running', 'waiting', 'parked', 'succeeded', 'failed', 'cancelled', 'dead'];

/**
 * A client with the credentials of a node's account writes forged entries, work messages, journal messages, events and
 * counters. The node stays, runs that it did not touch end, no tool is called twice for any run.
 */
export async function forgeries(effort: Effort): Promise<Finding> {
  const failures = new Failures();
  const folder = mkdtempSync(join(tmpdir(), 'spear-torture-forged-'));
  const nats = await startNats({ members: 1 });
  const servers = nats.members.map(({ address }) => address);
  writeNodeFolder(folder, { node: 'name = "node-0"\nlease_ms = 2000\ndrain_ms = 0\nslots = 8\nmax_queued = 500' });
  const node = new NodeLives(folder, ['--queue', `nats://${servers.join(',')}`]);
  const nc = await connect({ servers });
  try {
    await node.start();
    const forger = new Forger(nc, effort.random);
    const victims: string[] = [];
    const honest: string[] = [];
    const rounds = effort.of(6, 120);
    let asked = 0;
    for (let round = 0; round < rounds && !effort.isOver(); round++) {
      victims.push(await submit(node));
      honest.push(await submit(node));
      await forger.learn(victims);
      for (let left = BATCH; left > 0; left--) forger.forge();
      await nc.flush();
      asked += await askAll(node, effort.random.pick(victims), failures);
      effort.progress(round, rounds);
    }
    await allEnded(node, honest, failures);
    // What comes after is served too.
    await allEnded(node, [await submit(node)], failures);
    const twice = repeated(join(folder, 'trail'));
    if (twice.length > 0) failures.add(`called twice: ${twice.slice(0, 5).join(', ')}`);
    if (node.crashed > 0) failures.add(`the node ended by itself: ${node.log}`);
    return {
      what: 'forged entries, work, journal messages, events and counters in NATS',
      count: forger.forged,
      lost: failures.count,
      crashed: node.crashed,
      measured: `${honest.length} other runs ended once each, ${asked} requests about forged runs answered`,
      failures: failures.list(),
    };
  } finally {
    await node.kill();
    await nc.close();
    await nats.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Writes what only nodes should write. */
class Forger {
  readonly #nc: NatsConnection;
  readonly #random: Random;
  #entries: { readonly id: string; readonly text: string }[] = [];
  forged = 0;

  constructor(nc: NatsConnection, random: Random) {
    this.#nc = nc;
    this.#random = random;
  }

  /** Reads the entries of these runs as they are, to forge others of them. */
  async learn(ids: readonly string[]): Promise<void> {
    const found = await Promise.all(
      ids.slice(-20).map(async (id) => {
        const query = JSON.stringify({ last_by_subj: `$KV.${RUNS_BUCKET}.${id}` });
        const answer = await this.#nc.request(`$JS.API.STREAM.MSG.GET.KV_${RUNS_BUCKET}`, query);
        const { message } = answer.json<{ message?: { data?: string } }>();
        return { id, text: Buffer.from(message?.data ?? '', 'base64').toString() };
      }),
    );
    this.#entries = found.filter(({ id, text }) => isEntryOf(id, parseJson(text)));
  }

  forge(): void {
    this.forged++;
    const random = this.#random;
    const known = this.#entries.length === 0 ? { id: 'unknown', text: '{}' } : random.pick(this.#entries);
    const id = random.chance(4) ? random.pick(['unknown-1', '__proto__', 'constructor', 'a'.repeat(200)]) : known.id;
    const entry = this.#entry(known.text, id);
    const namespace = random.pick(['default', 'default', 'team-b', '__proto__']);
    const subjects: readonly (() => void)[] = [
      () => this.#nc.publish(`$KV.${RUNS_BUCKET}.${id}`, entry),
      () => this.#nc.publish(`$KV.${RUNS_BUCKET}.${id}`, entry),
      () => this.#nc.publish(`spear.${namespace}.run.default.${id}`, `{"run":"${id}","entry":${entry}}`),
      () => this.#nc.publish(`spear.${namespace}.run.default.${id}`, this.#bytes()),
      () => this.#nc.publish(`spear.${namespace}.journal.${id}`, this.#bytes(), { headers: this.#headers() }),
      () => this.#nc.publish(`spear.${namespace}.out.${id}`, this.#events()),
      () => this.#nc.publish(`spear.${namespace}.dead.${id}`, this.#bytes()),
      () => this.#nc.publish('spear.budget.tokens.2026-11-18.00', this.#bytes()),
    ];
    random.pick(subjects)();
  }

  /** The entry of a run with another status or namespace, or with anything in any field. */
  #entry(text: string, id: string): string {
    const random = this.#random;
    if (random.chance(10))
      return random.pick([
        '',
        '{',
        '[]',
        'null',
        '{"run":{}}',
        `{"run":{"id":"${id}"}}`,
        '{"__proto__":{"polluted":1}}',
      ]);
    const entry = JSON.parse(text) as Record<string, unknown>;
    const run: Record<string, unknown> = { ...(entry.run as object), id };
    const wrong = () => random.pick(wrongValues);
    if (random.chance(2)) run.status = random.pick(statuses);
    if (random.chance(3)) run.namespace = random.pick(['team-b', '*', '__proto__', 'default']);
    for (let left = random.below(4); left > 0; left--) run[random.pick(Object.keys(run))] = wrong();
    for (let left = random.below(3); left > 0; left--)
      entry[
        random.pick(['created', 'cancel', 'claim', 'input', 'result', 'parkedFor', 'wantedBy', 'objects', 'revision'])
      ] = wrong();
    return JSON.stringify({ ...entry, run: { ...run, id } });
  }

  #headers() {
    const made = headers();
    const random = this.#random;
    made.set('Spear-Kind', random.pick(['block', 'claim', 'released', 'parked', 'finished', 'other', '']));
    made.set('Spear-Claim', random.pick(['x', '']));
    made.set('Spear-Ordinal', random.pick(['1', '-1', 'x']));
    made.set('Spear-Attempt', random.pick(['0', '1', '99', 'NaN', '-5']));
    if (random.chance(3)) made.set('Spear-Object', 'other-run/input');
    return made;
  }

  #events(): string {
    const event = {
      id: this.#random.pick([0, 1, 1e9, 'x']),
      event: 'status\ndata: forged',
      data: '{"status":"succeeded"}',
    };
    return this.#random.pick([JSON.stringify([event]), JSON.stringify([null, 7]), '{}', 'x']);
  }

  #bytes(): string {
    return this.#random.pick([
      '',
      '{',
      'null',
      '{"status":"succeeded","result":{"inline":""}}',
      '{"t":"end"}\n',
      'x'.repeat(100_000),
    ]);
  }
}

async function submit(node: NodeLives): Promise<string> {
  const { status, text } = await node.ask('POST', AGENT, { body: 'x' });
  if (status !== 202) throw new Error(`a submission was answered with ${status} ${text}`);
  return (JSON.parse(text) as RunRecord).id;
}

/** Every request about a run whose entry may be forged; how many there were. */
async function askAll(node: NodeLives, id: string, failures: Failures): Promise<number> {
  const asked: readonly (readonly [string, string])[] = [
    ['GET', RUNS],
    ['GET', `${RUNS}?status=parked`],
    ['GET', '/v1/namespaces/team-b/runs'],
    ['GET', `${RUNS}/${id}`],
    ['GET', `${RUNS}/${id}/result`],
    ['GET', `${RUNS}/${id}/journal`],
    ['POST', `${RUNS}/${id}/cancel`],
    ['POST', `${RUNS}/${id}/retry`],
    ['GET', '/metrics'],
    ['GET', '/healthz'],
  ];
  for (const [method, path] of asked) {
    const failed = (error: unknown) => ({ status: 0, text: String(error) });
    const { status, text } = await node.ask(method, path, { signal: AbortSignal.timeout(ANSWER_MS) }).catch(failed);
    if (status === 0 || status === 500) {
      failures.add(`${method} ${path.replace(id, 'ID')} is ${status} ${text.slice(0, 200)}`);
    }
  }
  return asked.length;
}

async function allEnded(node: NodeLives, ids: readonly string[], failures: Failures): Promise<void> {
  const until = performance.now() + TO_THE_END_MS;
  for (const id of ids) {
    for (;;) {
      const { text } = await node.ask('GET', `${RUNS}/${id}`);
      const { status, exit } = JSON.parse(text) as RunRecord;
      if (status === 'succeeded') break;
      if (hasEnded(status) || performance.now() > until) {
        failures.add(`the run ${id} that nobody touched is ${status}: ${JSON.stringify(exit)}`);
        break;
      }
      await delay(LOOK_MS);
    }
  }
}

/** Calls that a server saw more than once: run and ordinal. */
function repeated(trail: string): string[] {
  if (!existsSync(trail)) return [];
  const seen = new Set<string>();
  const twice: string[] = [];
  for (const line of readFileSync(trail, 'utf8').trim().split('\n')) {
    const call = line.split(' ').slice(0, 2).join(' ');
    if (seen.has(call)) twice.push(call);
    seen.add(call);
  }
  return twice;
}
