import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { needsBubblewrap, skipIfMissing } from '../../../../support/needs.ts';
import { eventually, isAlive, processesWith, tempDir } from '../pool-samples.ts';

const host = fileURLToPath(new URL('host-death-sample.ts', import.meta.url));

async function startHost() {
  const dir = tempDir();
  const marker = randomUUID();
  const child = spawn(process.execPath, [host, join(dir, 'state'), dir, marker], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [line] = await once(child.stdout, 'data');
  return { child, marker, dir, pids: JSON.parse(String(line)) as number[] };
}

describe('a host that dies', () => {
  skipIfMissing(needsBubblewrap());

  it('during the start of its first server leaves no process behind', { timeout: 60_000 }, async () => {
    for (let round = 0; round < 6; round++) {
      const dir = tempDir();
      const marker = randomUUID();
      const child = spawn(process.execPath, [host, join(dir, 'state'), dir, marker, 'starting'], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      await once(child.stdout, 'data'); // printed in the turn in which the process is spawned
      child.kill('SIGKILL');
      await once(child, 'exit');
      await eventually(() => expect(processesWith(marker)).toEqual([]));
      await eventually(() => expect(readdirSync(dir)).toEqual(['state']));
    }
  });

  it.each(['SIGKILL', 'SIGTERM'] as const)(
    'of %s takes its servers and their descendants along, sandboxed ones too [pool.host-death]',
    async (signal) => {
      const { child, marker, dir, pids } = await startHost();
      expect(pids).toHaveLength(5);
      expect(pids.every(isAlive)).toBe(true);
      // The two that ignore every other request to end would live on for ever.
      expect(processesWith(marker).length).toBeGreaterThanOrEqual(7);
      child.kill(signal);
      await once(child, 'exit');
      await eventually(() => expect(pids.filter(isAlive)).toEqual([]));
      await eventually(() => expect(processesWith(marker)).toEqual([]));
      await eventually(() => expect(readdirSync(dir)).toEqual(['state']));
    },
  );
});
