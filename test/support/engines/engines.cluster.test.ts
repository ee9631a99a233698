import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { until } from '../until.ts';
import { useEtcd, useNats } from './use-engine.ts';

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('three etcd members on loopback', () => {
  const cluster = useEtcd();

  it('are there, and one that was killed comes back at its address', async () => {
    const { members } = cluster();
    expect(members.map(({ isRunning }) => isRunning)).toEqual([true, true, true]);
    const [first] = members;
    await first?.kill();
    expect(first?.isRunning).toBe(false);
    await first?.start();
    expect(first?.isRunning).toBe(true);
  });

  it('end with their owner, also when it is killed', async () => {
    const owner = fork(fileURLToPath(new URL('cluster-owner.ts', import.meta.url)));
    const [pid] = (await once(owner, 'message')) as [number];
    expect(isAlive(pid)).toBe(true);
    owner.kill('SIGKILL');
    await until(() => !isAlive(pid), 'the end of etcd');
  });
});

describe('three nats-servers on loopback', () => {
  const cluster = useNats();

  it('are there, and one that was killed comes back at its address', async () => {
    const { members } = cluster();
    const [first] = members;
    await first?.kill();
    await first?.start();
    expect(members.map(({ isRunning }) => isRunning)).toEqual([true, true, true]);
  });
});
