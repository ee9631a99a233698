import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { builtCommand } from '../support/built-command.ts';
import { onStop } from './running-sms.ts';

const entry = builtCommand('spear-sms');

export interface SmsProcess {
  readonly child: ChildProcess;
  /** Of the ready line. */
  readonly grpc: string;
  readonly http: string;
  /** Everything that it wrote to stderr so far. */
  stderr(): string;
  /** Sends the signal and waits for the end. Resolves with the exit code, or null where the signal ended it. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/** `spear-sms` as a process of its own, ready to serve, after a shell ran `first`. It ends with the test. */
export async function spawnSms(args: readonly string[], env: NodeJS.ProcessEnv = {}, first = ':'): Promise<SmsProcess> {
  const command = ['-c', `${first}; exec "$0" "$@"`, process.execPath, entry, ...args];
  const child = spawn('/bin/sh', command, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  onStop(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const firstLine = once(createInterface(child.stdout), 'line') as Promise<[string]>;
  const ready = await Promise.race([firstLine, exited.then(() => null)]);
  if (ready === null) throw new Error(`spear-sms ended before it was ready: ${stderr}`);
  const { grpc, http } = JSON.parse(ready[0]) as { grpc: string; http: string };
  return {
    child,
    grpc,
    http,
    stderr: () => stderr,
    async end(signal) {
      child.kill(signal);
      const [code] = await exited;
      return code;
    },
  };
}
