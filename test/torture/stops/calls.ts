import { setImmediate as turn } from 'node:timers/promises';
import type { StopRecord } from '../../../src/server/records/stop.ts';
import { startTestSms, stopAll, type TestSms } from '../../registry/running-sms.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { MachinePace } from '../machine-pace.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { StoppedClient } from './stopped-client.ts';

const CLIENTS = 100;
const P99_MS = 250;
/** Far above what it takes. */
const ROUND_MS = 30_000;
const STOPS = '/admin/api/stops';
const namespaces = ['team-a', 'team-b', 'team-c'];
const tasks = ['report', 'pay'];
const servers = ['fs', 'bank'];

type Target = Pick<StopRecord, 'scope' | 'name'>;

/**
 * Clients that call without a pause, and stops of random scopes: from the acknowledgement of a stop until each client in its
 * scope is refused. No call passes on a client that has the stop, calls in flight end, and no other client is refused.
 */
export async function stoppedCalls(effort: Effort): Promise<Finding> {
  const failures = new Failures();
  const sms = await startTestSms();
  const clients: StoppedClient[] = [];
  const delays: number[] = [];
  const pace = await MachinePace.start();
  const rounds = effort.of(10, 200);
  let done = 0;
  try {
    for (const id of servers) {
      await sms.http('POST', '/admin/api/mcp/servers', { json: contentOf(id) });
    }
    for (let n = 0; n < CLIENTS; n++) {
      const names = [effort.random.pick(namespaces), effort.random.pick(tasks), effort.random.pick(servers)] as const;
      clients.push(await StoppedClient.open(sms.source(), ...names));
    }
    for (; done < rounds && !effort.isOver(); done++) {
      const target = randomTarget(effort);
      delays.push(...(await round(sms, clients, target, failures)));
      effort.progress(done, rounds);
    }
  } finally {
    for (const client of clients) await client.close();
    await stopAll();
  }
  const { p99Ms: machine } = await pace.stop();
  const sorted = delays.sort((a, b) => a - b);
  const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? 0;
  if (p99 - machine > P99_MS) failures.add(`p99 from acknowledged to refused: ${p99.toFixed(0)} ms`);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const figures = `median ${median.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, worst ${(sorted.at(-1) ?? 0).toFixed(1)} ms`;
  return {
    what: `stops on ${CLIENTS} clients that call without a pause`,
    count: done,
    lost: failures.count,
    crashed: 0,
    measured: `${delays.length} clients refused after the acknowledgement: ${figures}`,
    failures: failures.list(),
  };
}

async function round(
  sms: TestSms,
  clients: readonly StoppedClient[],
  target: Target,
  failures: Failures,
): Promise<number[]> {
  const [stopped, others] = [clients.filter(isIn(target)), clients.filter((client) => !isIn(target)(client))];
  const about = `${target.scope} ${target.name}`;
  for (const client of clients) client.hold();
  const created = sms.http('POST', STOPS, { json: { ...target, reason: 'torture' } });
  let acknowledged: { readonly at: number; readonly revision: number; readonly id: string } | null = null;
  const answered = created.then(({ status, body, text }) => {
    if (status !== 201) throw new Error(text);
    acknowledged = { at: performance.now(), revision: Number(body.mod_revision), id: String(body.stop_id) };
  });
  const refusedAt = new Map<StoppedClient, number>();
  const end = performance.now() + ROUND_MS;
  while ((refusedAt.size < stopped.length || acknowledged === null) && performance.now() < end) {
    for (const client of stopped) {
      const code = client.call();
      if (code === 'mcp_stopped') refusedAt.set(client, refusedAt.get(client) ?? performance.now());
      else if (code !== null) failures.add(`${about}: a call ended with ${code}`);
      else if (refusedAt.has(client)) failures.add(`${about}: a call passed after one was refused`);
    }
    await turn();
  }
  await answered;
  if (acknowledged === null) throw new Error('the stop was not acknowledged');
  const { at, revision, id } = acknowledged as { at: number; revision: number; id: string };
  if (refusedAt.size < stopped.length)
    failures.add(`${about}: not refused on ${stopped.length - refusedAt.size} clients`);
  for (const client of stopped) {
    if (client.revision < revision) failures.add(`${about}: refused by another stop`);
    if (client.held?.code !== 'mcp_stopped') failures.add(`${about}: a call in flight ended with ${client.held?.code}`);
  }
  for (const client of others) {
    const code = client.call();
    if (code !== null || client.held !== null)
      failures.add(`${about}: a call out of its scope was refused with ${code}`);
  }
  await sms.http('DELETE', `${STOPS}/${id}`);
  while (clients.some((client) => client.revision <= revision) && performance.now() < end) await turn();
  for (const client of clients) {
    if (client.call() !== null) failures.add(`${about}: a call was refused after the stop was lifted`);
  }
  return stopped.map((client) => Math.max(0, (refusedAt.get(client) ?? end) - at));
}

const isIn =
  ({ scope, name }: Target) =>
  ({ namespace, task, server }: StoppedClient): boolean => {
    if (scope === 'namespace') return name === namespace;
    if (scope === 'task') return name === `${namespace}/${task}`;
    return scope === 'all' || name === server;
  };

function randomTarget({ random }: Effort): Target {
  const scope = random.pick(['all', 'namespace', 'task', 'server'] as const);
  if (scope === 'namespace') return { scope, name: random.pick(namespaces) };
  if (scope === 'task') return { scope, name: `${random.pick(namespaces)}/${random.pick(tasks)}` };
  return { scope, name: scope === 'all' ? '' : random.pick(servers) };
}

function contentOf(id: string): object {
  const { updated_at_ms: _, mod_revision: __, ...content } = sampleRecord(id, { allowed_tools: ['*'] });
  return content;
}
