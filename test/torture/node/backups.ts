import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { RunRecord } from '../../../src/server/records/run.ts';
import { builtCommand } from '../../support/built-command.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { NodeLives, writeNodeFolder } from './node-life.ts';
import { allEnded, effectsIn, someEnded } from './node-runs.ts';

/** More than end before a backup is made, so that it has runs in every state. */
const RUNS_PER_ROUND = 24;
/** Runs that end between a backup and the end of the node: the backup does not have their calls. */
const ENDED_AFTER_BACKUP = 4;

/**
 * Backups of a node under runs that call tools, and restores of them after the node continued: what was acknowledged
 * before a backup is there, every run ends, and no tool is called twice. Backup, node and restore are killed at times.
 */
export async function backups(effort: Effort): Promise<Finding> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-backups-'));
  const failures = new Failures();
  const rounds = effort.of(2, 30);
  const node = new NodeLives(folder, ['--slots', '4']);
  writeNodeFolder(folder, { turnMs: 80 });
  const backup = join(folder, 'node.backup');
  const counts = { killedBackups: 0, killedRestores: 0, restored: 0, runs: 0 };
  try {
    await node.start();
    for (let round = 0; round < rounds && !effort.isOver(); round++) {
      const submitted = await submitSome(node, `${round}`);
      await delay(effort.random.below(300));
      if (round % 2 === 1) {
        await spearlet(folder, 'backup', backup, effort.random.below(400));
        counts.killedBackups += 1;
      }
      const made = await spearlet(folder, 'backup', backup, null);
      if (made.code !== 0) failures.add(`the backup failed: ${made.text}`);
      // The node continues: calls that the backup does not have are made.
      await someEnded(node, ENDED_AFTER_BACKUP);
      await submitSome(node, `${round}-later`);
      await delay(effort.random.below(300));
      if (effort.random.chance(2)) await node.kill();
      else await node.stop();
      if (round % 2 === 1) {
        await spearlet(folder, 'restore', backup, effort.random.below(500));
        counts.killedRestores += 1;
      }
      const restored = await spearlet(folder, 'restore', backup, null);
      if (restored.code !== 0) failures.add(`the restore failed: ${restored.text}`);
      counts.restored += 1;
      await node.start();
      const runs = await allEnded(node);
      const ids = new Set(runs.map(({ id }) => id));
      for (const id of submitted) if (!ids.has(id)) failures.add(`${id} was in the backup and is lost`);
      for (const { id, status, exit } of runs) {
        if (status !== 'succeeded') failures.add(`${id} ended as ${status}: ${JSON.stringify(exit)}`);
      }
      counts.runs = runs.length;
      effort.progress(round, rounds);
    }
    const effects = effectsIn(join(folder, 'trail'));
    const twice = effects.filter((effect, index) => effects.indexOf(effect) !== index);
    for (const effect of twice) failures.add(`a tool was called twice for ${effect}`);
    if (node.crashed > 0) failures.add(`the node ended by itself: ${node.log}`);
    return {
      what: 'backups and restores of a node under runs of agents',
      count: counts.restored,
      lost: failures.count,
      crashed: node.crashed,
      measured: `${counts.killedBackups} backups and ${counts.killedRestores} restores were killed; ${counts.runs} runs at the end, ${effects.length} tool calls, ${twice.length} of them twice`,
      failures: failures.list(),
    };
  } finally {
    await node.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** `killAfterMs` null: the command runs to its end. */
async function spearlet(folder: string, verb: 'backup' | 'restore', file: string, killAfterMs: number | null) {
  const args = [builtCommand('spearlet'), verb, file, '--data', join(folder, 'data')];
  const child = spawn(process.execPath, [...args, '--config', join(folder, 'config.toml')], {
    env: { HOME: folder, PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
  }
  const exited = once(child, 'exit') as Promise<[number | null]>;
  const timer = killAfterMs === null ? null : setTimeout(() => child.kill('SIGKILL'), killAfterMs);
  const [code] = await exited;
  if (timer !== null) clearTimeout(timer);
  return { code, text };
}

async function submitSome(node: NodeLives, key: string): Promise<readonly string[]> {
  const submit = async (n: number) => {
    const answer = await node.ask('POST', '/v1/namespaces/default/tasks/agent/runs', { body: `${key}-${n}` });
    if (answer.status !== 202) throw new Error(`the node answered ${answer.status}: ${answer.text}`);
    return (JSON.parse(answer.text) as RunRecord).id;
  };
  return Promise.all(Array.from({ length: RUNS_PER_ROUND }, (_, n) => submit(n)));
}
