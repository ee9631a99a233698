import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openScriptedBackend } from '../../../src/agent/chat/backends/scripted.ts';
import { type OpenMcp, openMcp, runGuest } from '../../../src/index.ts';
import { guestModule } from '../guests/guest-module.ts';
import { HonestGuest } from '../guests/honest.ts';
import { type HostileGuest, hostileGuests, hostileTurns } from '../guests/hostile.ts';
import { growth, tenants } from '../guests/tenants.ts';
import { Failures, type Topic } from '../topic.ts';

const MIB = 1024 * 1024;
/** What the process may have at the most, beyond what it had before: a guest under default limits may have much of it. */
const MAX_GROWTH_MIB = 1_536;
/** What an answer may take in 99 of 100 cases; or so many times what it takes without company, on a busy machine. */
const MAX_P99_MS = 250;
const TIMES_ALONE = 20;
const MAX_P99_ANYWHERE_MS = 1_000;
const LOOK_MS = 20;
const WARM_ANSWERS = 500;
/** Of fewer answers the slowest would be all that is seen. */
const ENOUGH_ANSWERS = 200;
/** Those that are to end by themselves are not hurried: a busy machine is slow. */
const PATIENT_MS = 60_000;

const script = JSON.stringify({ turns: hostileTurns });
const tinyServer = fileURLToPath(new URL('../../../fixtures/mcp-servers/tiny.mjs', import.meta.url));

export const topic: Topic = async (effort) => {
  const failures = new Failures();
  const deadlineMs = effort.of(150, 4_000);
  const stateDir = mkdtempSync(join(tmpdir(), 'spear-torture-'));
  const transport = { kind: 'stdio', command: process.execPath, args: [tinyServer] } as const;
  const config = { 'mcp.enabled': true, 'mcp.default_server_ids': ['tiny'] };
  const mcp = await openMcp({ task: { name: 'torture', config }, servers: [{ name: 'tiny', transport }], stateDir });
  const honest = new HonestGuest();
  await honest.start();
  await honest.answered(WARM_ANSWERS);
  const alone = await withCompany(honest, () => pause(effort.of(400, 3_000)));
  const boundMs = Math.min(MAX_P99_ANYWHERE_MS, Math.max(MAX_P99_MS, TIMES_ALONE * p99(alone)));

  const all = { latencies: [] as number[], growth: { mib: 0, by: '' }, worst: { ms: 0, by: '' } };
  const names = Object.keys(hostileGuests).filter((name) => !effort.short || !hostileGuests[name]?.slow);
  const before = process.memoryUsage.rss();
  let count = 0;
  for (const name of names) {
    if (effort.isOver()) break;
    const guest = hostileGuests[name] as HostileGuest;
    let most = 0;
    const look = setInterval(() => {
      most = Math.max(most, process.memoryUsage.rss());
    }, LOOK_MS);
    const latencies = await withCompany(honest, async () => {
      const problem = await endsAs(guest, deadlineMs, mcp);
      if (problem !== null) failures.add(`the guest that ${name}: ${problem}`);
    });
    clearInterval(look);
    const mib = Math.round((most - before) / MIB);
    if (mib > all.growth.mib) all.growth = { mib, by: name };
    if (mib > MAX_GROWTH_MIB) failures.add(`the guest that ${name}: the host has grown by ${mib} MiB`);
    const ms = latencies.length < ENOUGH_ANSWERS ? 0 : p99(latencies);
    if (ms > all.worst.ms) all.worst = { ms, by: name };
    if (ms > boundMs) failures.add(`beside the guest that ${name} an honest one waits ${ms.toFixed(0)} ms (p99)`);
    for (const latency of latencies) all.latencies.push(latency);
    effort.progress(++count, names.length);
  }
  if (p99(all.latencies) > boundMs) failures.add(`the honest guest waits ${p99(all.latencies).toFixed(0)} ms (p99)`);
  const ended = await honest.end();
  if (ended?.reason !== 'interrupted') failures.add(`the honest guest ended with ${ended?.reason}: ${ended?.message}`);
  if (honest.wrong > 0) failures.add(`the honest guest had ${honest.wrong} wrong answers of ${honest.asked}`);
  await mcp.close();
  rmSync(stateDir, { recursive: true, force: true });
  const measured = [
    `honest p99 ${p99(all.latencies).toFixed(1)} ms, ${p99(alone).toFixed(1)} ms alone, at most ${all.worst.ms.toFixed(0)} ms (${all.worst.by}; bound ${boundMs.toFixed(0)} ms)`,
    `host grown by at most ${all.growth.mib} MiB (${all.growth.by}; bound ${MAX_GROWTH_MIB} MiB)`,
  ];
  const what = `hostile guests, beside ${honest.asked.toLocaleString('en')} honest answers`;
  return [
    { what, count, lost: honest.wrong, crashed: 0, measured: measured.join('; '), failures: failures.list() },
    await tenants(effort),
    await growth(effort),
  ];
};

/** What the honest guest measures meanwhile. */
async function withCompany(honest: HonestGuest, work: () => Promise<unknown>): Promise<number[]> {
  honest.latencies();
  await work();
  return honest.latencies();
}

/** What is wrong with the way it ends, or null. */
async function endsAs(guest: HostileGuest, deadlineMs: number, mcp: OpenMcp): Promise<string | null> {
  const backend = await openScriptedBackend('scripted', 'script.json', () => script);
  const endless = () => Readable.from(endlessChunks());
  const { reason, message, chat } = await runGuest({
    wasm: await guestModule(guest),
    backend,
    output: () => {},
    limits: { timeout_ms: guest.ends === 'deadline' ? deadlineMs : PATIENT_MS },
    stdin: guest.stdin === 'endless' ? endless : undefined,
    mcp: guest.mcp ? mcp : undefined,
  });
  if (reason !== guest.ends) return `it ended with ${reason} (${message}), not ${guest.ends}`;
  const idle = guest.tool !== undefined && reason === 'exit' && chat.toolCalls === 0;
  return idle ? 'its tool was never called' : null;
}

function* endlessChunks(): Generator<Uint8Array> {
  for (;;) yield Buffer.alloc(65_536, 'x');
}

function p99(latencies: readonly number[]): number {
  const sorted = latencies.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? 0;
}
