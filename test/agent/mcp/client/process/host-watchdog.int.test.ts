import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { PoolLogEntry } from '../../../../../src/agent/mcp/client/pool-options.ts';
import { HostWatchdog } from '../../../../../src/agent/mcp/client/process/host-watchdog.ts';
import { eventually, isAlive, tempDir } from '../pool-samples.ts';

function makeWatchdog() {
  const tmpRoot = mkdtempSync(join(tempDir(), 'root-'));
  const log: PoolLogEntry[] = [];
  const started: ChildProcess[] = [];
  const watchdog = new HostWatchdog({
    spawn: (command, args, options) => {
      const child = spawn(command, args, options);
      started.push(child);
      return child;
    },
    log: (entry) => log.push(entry),
    tmpRoot,
    path: '/usr/bin:/bin',
  });
  onTestFinished(() => watchdog.close());
  return { watchdog, tmpRoot, log, started };
}

/** Something that runs until it is killed, in a group of its own. */
function sleeper(env: Record<string, string> = {}): number {
  const child = spawn('/bin/sleep', ['600'], { detached: true, stdio: 'ignore', env });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child.pid as number;
}

describe('the watchdog', () => {
  it('kills the groups it knows and processes with our TMPDIR, and no others [pool.host-death]', async () => {
    const { watchdog, tmpRoot } = makeWatchdog();
    const [known, removed, marked, stranger] = [
      sleeper(),
      sleeper(),
      sleeper({ TMPDIR: join(tmpRoot, '7') }),
      sleeper({ TMPDIR: `${tmpRoot}-other/7` }),
    ];
    watchdog.add(known);
    watchdog.add(removed);
    watchdog.remove(removed);
    await watchdog.close();
    await eventually(() => expect([known, marked].filter(isAlive)).toEqual([]));
    expect([removed, stranger].filter(isAlive)).toEqual([removed, stranger]);
    expect(existsSync(tmpRoot)).toBe(false);
  });

  it('does not kill groups that were removed [pool.host-death]', async () => {
    const { watchdog } = makeWatchdog();
    const pids = Array.from({ length: 12 }, () => sleeper());
    for (const pid of pids) watchdog.add(pid);
    const kept = pids.filter((_, index) => index % 3 === 0);
    for (const pid of pids) if (!kept.includes(pid)) watchdog.remove(pid);
    await watchdog.close();
    await eventually(() => expect(kept.filter(isAlive)).toEqual([]));
    expect(pids.filter((pid) => !kept.includes(pid)).every(isAlive)).toBe(true);
  });

  it('is restarted with its groups when it is killed [pool.host-death]', async () => {
    const { watchdog, log, started } = makeWatchdog();
    const pid = sleeper();
    watchdog.add(pid);
    const first = started[0] as ChildProcess;
    first.kill('SIGKILL');
    await once(first, 'exit');
    expect(started).toHaveLength(2);
    expect(log.map(({ event }) => event)).toEqual(['watchdog_lost']);
    expect(isAlive(pid)).toBe(true);
    await watchdog.close();
    await eventually(() => expect(isAlive(pid)).toBe(false));
  });
});
