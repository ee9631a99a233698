import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, mkdtempSync, openSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { ToolboxServer } from '../../../src/agent/mcp/toolbox-server.ts';
import { Random } from '../random.ts';
import { type FoundProcess, holdersOf, processesWith } from './marked.ts';
import { hostKiller, nodeServer, nodeServers, shellServer, shellServers } from './servers.ts';

const program = fileURLToPath(new URL('./host.ts', import.meta.url));

/** How long what a dead host leaves behind may live. */
const GONE_WITHIN_MS = 15_000;
/** The watchdog looks three times before it ends, so nothing is gone sooner. */
const FIRST_LOOK_MS = 150;
const LOOK_EVERY_MS = 50;
/** A stage that a host with these servers never reaches is not waited for longer. */
const STAGE_WITHIN_MS = 5_000;

/** When the host dies. A server that kills it has its own idea of it. */
interface Death {
  readonly stage: 'started' | 'connecting' | 'spawned' | 'connected' | 'closing' | 'by a server';
  readonly afterMs: number;
}

export interface CycleEnd {
  readonly stage: Death['stage'];
  /** Servers that it had started by then. */
  readonly started: number;
  /** How long it took until none was left. */
  readonly goneAfterMs: number;
  /** A host that dies between making its folder for temporary files and starting its watchdog leaves that folder. */
  readonly foldersLeft: number;
  /** Null: nothing is wrong. */
  readonly failure: string | null;
}

/** One host from its start to its sudden death, and what becomes of its servers. */
export async function cycle(seed: number): Promise<CycleEnd> {
  const random = new Random(seed);
  // The folder is in every TMPDIR below it, so it is the marker of all processes of this cycle.
  const folder = mkdtempSync(join(tmpdir(), 'spear-torture-'));
  const [servers, death] = [randomServers(random, folder), randomDeath(random)];
  const all = death.stage === 'by a server' ? [...servers, shellServer('killer', hostKiller, folder, false)] : servers;
  // A descriptor that the host inherits, and that no server may have.
  const inherited = join(folder, 'state');
  mkdirSync(inherited);
  const descriptor = openSync(inherited, 'r');
  const gap = Array.from({ length: 20 + random.below(200) }, () => 'ignore' as const);
  const host = spawn(process.execPath, [program, join(folder, 'state'), JSON.stringify(all)], {
    env: { PATH: process.env.PATH, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'ignore', ...gap, descriptor],
  });
  closeSync(descriptor);
  let said = '';
  if (host.stdout === null) throw new Error('the host has no stdout pipe');
  host.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  // After its last words: they tell what it had started.
  const exited = once(host, 'close');
  await reached(host, death, exited);
  const leaks = holdersOf(inherited, processesWith(folder).filter(isServer));
  host.kill('SIGKILL');
  await exited;
  const diedAt = performance.now();
  const left = await waitUntilGone(folder, diedAt);
  const goneAfterMs = performance.now() - diedAt;
  for (const { pid } of left) process.kill(pid, 'SIGKILL');
  const foldersLeft = readdirSync(folder).filter((name) => name !== 'state').length;
  rmSync(folder, { recursive: true, force: true });
  const lines = left.map(({ pid, commandLine }) => `${pid} ${commandLine}`);
  const lived =
    left.length === 0
      ? null
      : `alive ${Math.round(goneAfterMs)} ms after a host that died ${describe(death)} (case ${seed}): ${lines.join(', ')}`;
  const leaked = leaks.length === 0 ? null : `has a descriptor of its host (case ${seed}): ${leaks.join(', ')}`;
  const failure = lived ?? leaked;
  return { stage: death.stage, started: said.split('spawned').length - 1, goneAfterMs, foldersLeft, failure };
}

/** Not the shell that closes descriptors and becomes one. */
const isServer = ({ commandLine }: FoundProcess) =>
  commandLine.startsWith('/bin/sh -c ') && commandLine.includes('serve()');

const describe = ({ stage, afterMs }: Death) => `${stage} + ${afterMs} ms`;

/** Beside others that may do as they like there is one that can be connected. */
function randomServers(random: Random, marker: string): ToolboxServer[] {
  const kinds = Object.entries(shellServers);
  const [plain] = kinds as [(typeof kinds)[number]];
  return Array.from({ length: 2 + random.below(3) }, (_, index) => {
    const name = `server-${index}`;
    if (index > 0 && random.chance(12)) return nodeServer(name, random.pick(nodeServers), marker);
    const [, script] = index === 0 ? plain : random.pick(kinds);
    return shellServer(name, script, marker, random.chance(8));
  });
}

const stages: readonly [stage: Death['stage'], upToMs: number][] = [
  ['started', 300],
  ['connecting', 100],
  ['spawned', 3],
  ['spawned', 30],
  ['connected', 1],
  ['connected', 40],
  ['closing', 300],
  ['by a server', 1],
];

function randomDeath(random: Random): Death {
  const [stage, upToMs] = random.pick(stages);
  return { stage, afterMs: random.below(upToMs) };
}

async function reached(host: ChildProcess, { stage, afterMs }: Death, exited: Promise<unknown>): Promise<void> {
  const late = sleep(STAGE_WITHIN_MS);
  if (stage === 'by a server') await Promise.race([exited, late]);
  else if (stage !== 'started') await Promise.race([says(host, stage), exited, late]);
  await Promise.race([sleep(afterMs), exited]);
}

function says(host: ChildProcess, stage: string): Promise<void> {
  return new Promise((resolve) => {
    let said = '';
    host.stdout?.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if (said.includes(stage)) resolve();
    });
  });
}

/** What is still there when it should have been gone. */
async function waitUntilGone(folder: string, since: number): Promise<FoundProcess[]> {
  for (let pause = FIRST_LOOK_MS; ; pause = LOOK_EVERY_MS) {
    await sleep(pause);
    const found = processesWith(folder);
    if (found.length === 0 || performance.now() - since >= GONE_WITHIN_MS) return found;
  }
}
