import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';

/** Waits for the end of its standard input, which comes when this process ends in whatever way, and then ends the other. */
const WATCH = 'cat >/dev/null; kill -KILL "$0" 2>/dev/null; rm -rf "$1"';

export interface OwnedProcess {
  readonly pid: number;
  readonly isRunning: boolean;
  /** Sends a signal and, where that ends it, waits for the end. */
  signal(signal: NodeJS.Signals): Promise<void>;
  /** Resolves at its end, whoever ended it. */
  readonly ended: Promise<void>;
}

/**
 * An engine that does not outlive this process, not even one that is killed: then its `folder` is removed with it. What it
 * says goes to `log`.
 */
export async function spawnOwned(
  command: string,
  args: readonly string[],
  place: { readonly folder: string; readonly log: string },
): Promise<OwnedProcess> {
  const log = openSync(place.log, 'a');
  const child = spawn(command, args, { stdio: ['ignore', log, log], cwd: place.folder });
  closeSync(log);
  const ended = once(child, 'exit').then(() => {});
  await once(child, 'spawn');
  const { pid } = child;
  if (pid === undefined) throw new Error(`${command} has no process id`);
  const watch = spawn('/bin/sh', ['-c', WATCH, String(pid), place.folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true, // a terminal's Ctrl-C must not end it first
  });
  unref(watch);
  unref(child);
  // Ended before its pipe is, so that it never takes somebody else for the one it watched.
  const unwatched = ended.then(() => watch.kill('SIGKILL'));
  return {
    pid,
    get isRunning() {
      return child.exitCode === null && child.signalCode === null;
    },
    async signal(signal) {
      child.kill(signal);
      if (signal === 'SIGSTOP' || signal === 'SIGCONT') return;
      child.ref(); // now somebody waits for it
      await unwatched;
    },
    ended,
  };
}

/** A test that forgot it must not hang on it. */
function unref(child: ChildProcess): void {
  child.unref();
  const { stdin } = child;
  if (stdin && 'unref' in stdin && typeof stdin.unref === 'function') stdin.unref();
}

/** Below the ports that systems give to outgoing connections, one of which could take the port of a stopped engine. */
const PORT_RANGE = { from: 20_000, to: 32_000 };

/** Free ports of 127.0.0.1, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(PORT_RANGE.from, PORT_RANGE.to);
    if (!ports.has(port) && (await isFree(port))) ports.add(port);
  }
  return [...ports];
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

const READY_MS = 45_000;
const PAUSE_MS = 50;

/** Asks until an engine answers; fails with the end of its log when it ended, or never does. */
export async function untilReady(
  ask: () => Promise<boolean>,
  what: string,
  process: OwnedProcess,
  log: string,
): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (!(await ask().catch(() => false))) {
    if (!process.isRunning || performance.now() > deadline) {
      const why = process.isRunning ? `is not ready after ${READY_MS} ms` : 'has ended';
      throw new Error(`${what} ${why}:\n${readFileSync(log, 'utf8').slice(-2_000)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
