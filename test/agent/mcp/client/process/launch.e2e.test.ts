import { type StdioOptions, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { sampleRecord } from '../../../../server/records/server-samples.ts';
import { needs, needsBubblewrap, skipIfMissing } from '../../../../support/needs.ts';
import { fixture, tempDir } from '../pool-samples.ts';

const host = fileURLToPath(new URL('launch-sample.ts', import.meta.url));
/** Not next to the standard streams: Node sets close-on-exec on everything up to the first gap. */
const INHERITED = 40;
const SECOND = 97;

/** The last one is the directory that `ls` reads. */
const standardStreams = ['0', '1', '2', '3'];

/** A server that writes the numbers of its descriptors into its HOME before it starts. */
const server = (sandbox: Record<string, unknown> | null, command = '/bin/sh', env: Record<string, string> = {}) =>
  sampleRecord('listing', {
    stdio: {
      command,
      args: ['-c', `ls /proc/self/fd > "$HOME/fds"; exec "$0" "$1"`, process.execPath, fixture('confined.mjs')],
      env: { BASH_ENV: '/dev/nonexistent', OWN: 'value', SHLVL: '7', ...env },
    },
    budgets: { connect_timeout_ms: 60_000, tool_timeout_ms: 60_000 },
    ...(sandbox === null ? {} : { sandbox }),
  });

async function seenByServer(record: unknown, inherited: readonly number[] = [INHERITED, SECOND]) {
  const dir = tempDir();
  writeFileSync(join(dir, 'secret'), 'for the host alone');
  const file = openSync(join(dir, 'secret'), 'r');
  onTestFinished(() => closeSync(file));
  const stdio: StdioOptions = ['ignore', 'pipe', 'inherit'];
  for (const fd of inherited) {
    while (stdio.length < fd) stdio.push('ignore');
    stdio.push(file);
  }
  const child = spawn(process.execPath, [host, join(dir, 'state'), JSON.stringify(record)], { stdio });
  onTestFinished(() => void child.kill('SIGKILL'));
  return JSON.parse(await text(child.stdout as NodeJS.ReadableStream)) as { fds: string[]; environment: string[] };
}

describe('descriptors that the host inherited', () => {
  skipIfMissing(needs(process.platform === 'linux', '/proc', 'run on Linux'), needsBubblewrap());

  it('are closed before a server starts [pool.descriptors]', { timeout: 60_000 }, async () => {
    const { fds, environment } = await seenByServer(server(null));
    expect(fds).toEqual(standardStreams);
    // PWD is of the server's own shell.
    const own = environment.filter((name) => name !== 'PWD');
    expect(own).toEqual(['BASH_ENV', 'HOME', 'OWN', 'PATH', 'SHLVL', 'TMPDIR']);
  });

  it('are closed before a sandboxed server starts [pool.descriptors]', { timeout: 60_000 }, async () => {
    const read_only_paths = [dirname(fixture('confined.mjs')), process.execPath];
    const { fds } = await seenByServer(server({ mode: 'required', network: 'deny', read_only_paths }));
    expect(fds).toEqual(standardStreams);
  });

  it('are closed without running startup files in the HOME of the server', { timeout: 60_000 }, async () => {
    const home = tempDir();
    writeFileSync(join(home, '.bashrc'), 'echo read > "$HOME/rc"');
    await seenByServer(server(null, '/bin/sh', { HOME: home, SHLVL: '0' }));
    expect(existsSync(join(home, 'rc'))).toBe(false);
  });

  it('do not change the lookup of a server on its PATH', { timeout: 60_000 }, async () => {
    expect((await seenByServer(server(null, 'sh'))).fds).toEqual(standardStreams);
  });

  it('are inherited by a plain child of the host: the premise of this file', async () => {
    const file = openSync('/dev/null', 'r');
    onTestFinished(() => closeSync(file));
    const stdio: StdioOptions = ['ignore', 'pipe', 'inherit'];
    while (stdio.length < INHERITED) stdio.push('ignore');
    const script = `process.stdout.write(require('child_process').execFileSync('ls', ['/proc/self/fd']))`;
    const child = spawn(process.execPath, ['-e', script], { stdio: [...stdio, file] });
    expect((await text(child.stdout as NodeJS.ReadableStream)).split('\n')).toContain(String(INHERITED));
  });
});
