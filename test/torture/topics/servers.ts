import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { McpPool } from '../../../src/agent/mcp/client/pool.ts';
import { type McpTransport, mcpTransports } from '../../../src/server/records/server.ts';
import { createSecretSource } from '../../../src/server/secrets/secret-file.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { MachinePace } from '../machine-pace.ts';
import { processesWith } from '../processes/marked.ts';
import type { Random } from '../random.ts';
import { type Attack, type AttackEnd, attack, behavioursOf, CHECK_MS, LIST_MS, recordOf } from '../servers/attack.ts';
import { HonestCalls, type HonestPace } from '../servers/honest-server.ts';
import { HostileHttp } from '../servers/hostile-host.ts';
import { httpBehaviours } from '../servers/http-behaviours.ts';
import { type Effort, Failures, type Finding, type Topic } from '../topic.ts';

/** Hostile servers at one time. */
const LANES = 6;
/**
 * What the host thread may do for others during 99 of 100 calls of the honest server. It is counted in processor time: who
 * holds the thread spends it, and a machine that is busy with something else does not.
 */
const HELD_P99_MS = 250;
/** What such a call may wait besides, and how far past its deadline a wait may end, on a quiet machine. */
const SLACK_MS = 750;
/** So many times what the machine itself needs for an echo is its own doing. */
const PACE_FACTOR = 4;
/** A machine as slow as this gives a server too little time to do what it should. */
const SLOW_MS = 20;
const GONE_WITHIN_MS = 10_000;
const LOOK_EVERY_MS = 50;
/** A server that says `retry: 0` is not asked again as often as it likes. */
const MAX_REQUESTS_PER_ATTACK = 100;

const honestProgram = fileURLToPath(new URL('../../../fixtures/mcp-servers/tiny.mjs', import.meta.url));

/** What came of one siege, or of several of the same transport. */
interface Toll {
  readonly attacks: number;
  readonly honestCalls: number;
  readonly honestWrong: number;
  readonly p99: HonestPace;
  readonly pace: number;
  readonly latest: number;
  readonly crashes: number;
}

export const topic: Topic = async (effort) => {
  const failures = new Map(mcpTransports.map((transport) => [transport, new Failures()]));
  const tolls = new Map<McpTransport, Toll[]>(mcpTransports.map((transport) => [transport, []]));
  // Round by round, so that whatever time there is, it goes to all transports.
  for (let round = 0; round < effort.of(1, 3); round++) {
    for (const [transport, wrong] of failures) tolls.get(transport)?.push(await siege(effort, transport, wrong));
  }
  return [...failures].map(([transport, wrong]) => findingOf(transport, tolls.get(transport) ?? [], wrong));
};

function findingOf(transport: McpTransport, tolls: readonly Toll[], failures: Failures): Finding {
  const sum = (of: (toll: Toll) => number) => tolls.reduce((total, toll) => total + of(toll), 0);
  const worst = (of: (toll: Toll) => number) => Math.round(Math.max(0, ...tolls.map(of)));
  const honest = `${sum((toll) => toll.honestCalls).toLocaleString('en')} honest calls, p99 ${worst((toll) => toll.p99.clockMs)} ms, host thread ${worst((toll) => toll.p99.processorMs)} ms`;
  return {
    what: `${behavioursOf(transport).length} behaviours, ${transport}`,
    count: sum((toll) => toll.attacks),
    lost: sum((toll) => toll.honestWrong),
    crashed: sum((toll) => toll.crashes),
    measured: `latest ${worst((toll) => toll.latest)} ms past its deadline; ${honest}, the machine’s own ${worst((toll) => toll.pace)} ms`,
    failures: failures.list(),
  };
}

/** One pool, one honest server, and all hostile ones of a transport. */
async function siege(effort: Effort, transport: McpTransport, failures: Failures): Promise<Toll> {
  const hostile = await HostileHttp.start();
  const crashes: string[] = [];
  const onCrash = (error: unknown) =>
    void crashes.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  process.on('uncaughtException', onCrash);
  process.on('unhandledRejection', onCrash);
  const marker = randomUUID();
  const stateDir = mkdtempSync(join(tmpdir(), 'spear-torture-'));
  const pool = new McpPool(
    {
      stateDir,
      limits: {
        listTimeoutMs: LIST_MS,
        maxMessageBytes: 1024 * 1024,
        validationTimeoutMs: CHECK_MS,
        stdinGraceMs: 100,
        termGraceMs: 200,
        reconnectBaseMs: 20,
      },
    },
    { secrets: createSecretSource({ mode: 'user_owned', names: [], paths: [], backendKeyNames: [] }, {}) },
  );
  const stdio = { command: process.execPath, args: [honestProgram], env: { MARKER: marker } };
  const honest = await HonestCalls.start(pool, sampleRecord('honest', { stdio, budgets: { tool_timeout_ms: 30_000 } }));
  const machine = await MachinePace.start();
  const attacks = chosenAttacks(effort.random, transport, effort.of(10, Number.POSITIVE_INFINITY));
  const ends: AttackEnd[] = [];
  const lane = async () => {
    for (let next = attacks.shift(); next && !effort.isOver(); next = attacks.shift()) {
      const end = await attack(next, pool, recordOf(next, hostile.port, marker));
      ends.push(end);
      for (const failure of end.failures) failures.add(failure);
      effort.progress(ends.length, ends.length + attacks.length);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  await honest.stop();
  for (const wrong of honest.wrong) failures.add(`the honest server beside ${transport}: ${wrong}`);
  const pace = await machine.stop();
  const [slackMs, p99] = [SLACK_MS + PACE_FACTOR * pace.worstMs, honest.p99()];
  const took = `the honest server’s p99 was ${Math.round(p99.clockMs)} ms, ${Math.round(p99.processorMs)} ms of them the host thread’s work`;
  if (p99.processorMs > HELD_P99_MS) failures.add(`${took}, over ${HELD_P99_MS}`);
  if (p99.clockMs > HELD_P99_MS + slackMs) failures.add(`${took}, over ${Math.round(HELD_P99_MS + slackMs)} in all`);
  const late = ends.flatMap((end) => end.late);
  for (const { what, byMs } of late) {
    if (byMs > slackMs) failures.add(`${what}, took ${Math.round(byMs)} ms more`);
  }
  if (pace.p99Ms < SLOW_MS) for (const starved of ends.flatMap((end) => end.starved)) failures.add(starved);
  await pool.close();
  for (const left of await whatIsLeft(pool, marker, hostile))
    failures.add(`${transport}, after the pool was closed: ${left}`);
  process.off('uncaughtException', onCrash);
  process.off('unhandledRejection', onCrash);
  for (const crash of crashes) failures.add(`${transport}: nobody caught ${crash}`);
  rmSync(stateDir, { recursive: true, force: true });
  hostile.stop();
  return {
    attacks: ends.length,
    honestCalls: honest.count,
    honestWrong: honest.wrong.length,
    p99,
    pace: pace.p99Ms,
    latest: Math.max(0, ...late.map(({ byMs }) => byMs)),
    crashes: crashes.length,
  };
}

/** Every behaviour in an order of chance; or just so many of them. */
function chosenAttacks(random: Random, transport: McpTransport, most: number): Attack[] {
  return behavioursOf(transport)
    .map((behaviour) => ({ order: random.bits(), attack: { behaviour, transport, seed: random.seed() } }))
    .sort((a, b) => a.order - b.order)
    .slice(0, most)
    .map(({ attack }) => attack);
}

/** Processes and connections that outlive the pool, and servers that were asked all too often. */
async function whatIsLeft(pool: McpPool, marker: string, hostile: HostileHttp): Promise<string[]> {
  const end = performance.now() + GONE_WITHIN_MS;
  const look = async () => {
    const { open, requests } = await hostile.count();
    const processes = processesWith(marker);
    const { subprocesses } = pool.stats();
    return [
      ...processes.map(({ pid, commandLine }) => `process ${pid} ${commandLine}`),
      ...(open > 0 ? [`${open} connections`] : []),
      ...(subprocesses > 0 ? [`${subprocesses} places of processes`] : []),
      ...Object.entries(requests).flatMap(([name, count]) =>
        name in httpBehaviours && count > MAX_REQUESTS_PER_ATTACK ? [`${count} requests to a server that ${name}`] : [],
      ),
    ];
  };
  for (;;) {
    const left = await look();
    if (left.length === 0 || performance.now() > end) return left;
    await sleep(LOOK_EVERY_MS);
  }
}
