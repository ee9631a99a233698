import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Row } from './measure/row.ts';

const program = fileURLToPath(new URL('./topic-process.ts', import.meta.url));
/** Lines of a failing topic's stderr that say what happened. */
const LAST_LINES = 8;

/** Why a topic has no figures. */
export class TopicFailed extends Error {}

/** The rows of one topic. @throws TopicFailed */
export async function runTopic(name: string, quick: boolean, timeoutMs: number): Promise<Row[]> {
  // A group of its own: whatever the topic has started ends with it, however it ends.
  const child = fork(program, [name, quick ? 'quick' : 'full'], {
    detached: true,
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  });
  let rows: Row[] | undefined;
  let said = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  child.once('message', (message) => {
    rows = message as Row[];
  });
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    endGroup(child.pid);
  }, timeoutMs);
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  clearTimeout(timer);
  endGroup(child.pid);
  if (rows && code === 0) return rows;
  if (late) throw new TopicFailed(`topic ${name} took longer than ${timeoutMs / 1000} s and was stopped`);
  const words = said.trim().split('\n').slice(-LAST_LINES).join('\n');
  throw new TopicFailed(`topic ${name} ended with ${code ?? signal}:\n${words}`);
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // nothing of it is left
  }
}
