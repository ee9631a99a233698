import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { TopicEnd } from './topic.ts';

const program = fileURLToPath(new URL('./topic-process.ts', import.meta.url));
/** What a topic gets beyond the time it was told, to end what it has begun. */
const GRACE_MS = 60_000;
/** Lines of a failing topic's stderr that say what happened. */
const LAST_LINES = 12;

export interface TopicRun {
  readonly name: string;
  readonly short: boolean;
  readonly seed: number;
  readonly allowedMs: number;
  /** Told what the topic says while it runs. @default nobody */
  readonly onProgress?: (text: string) => void;
}

/** The findings of one topic. A process that ends without any is a finding too: the worst. */
export async function runTopic({ name, short, seed, allowedMs, onProgress }: TopicRun): Promise<TopicEnd> {
  // A group of its own: whatever the topic has started ends with it, however it ends.
  const args = [name, short ? 'short' : 'full', String(seed), String(allowedMs)];
  const child = fork(program, args, { detached: true, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  let end: TopicEnd | undefined;
  let said: string[] = [];
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = [...said, ...text.trimEnd().split('\n')].slice(-LAST_LINES);
    onProgress?.(text);
  });
  child.once('message', (message) => {
    end = message as TopicEnd;
  });
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    endGroup(child.pid);
  }, allowedMs + GRACE_MS);
  const interrupted = () => {
    endGroup(child.pid);
    process.exit(130);
  };
  process.once('SIGINT', interrupted);
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  process.off('SIGINT', interrupted);
  clearTimeout(timer);
  endGroup(child.pid);
  if (end && code === 0) return end;
  const how = late ? `hung: it was ended ${GRACE_MS / 1000} s after its time` : `ended with ${code ?? signal}`;
  const failures = [`the process of the topic ${how}; it said last:\n${said.join('\n')}`];
  const finding = { what: 'the topic itself', count: 0, lost: 0, crashed: 1, measured: '', failures };
  return { findings: [finding], wasCut: late };
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // nothing of it is left
  }
}
