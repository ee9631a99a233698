import { startOf } from '../../../../base/cut-text.ts';
import type { SandboxNetwork } from '../../../../server/records/record.ts';
import { mountArguments, systemMounts } from './sandbox-arguments.ts';
import type { Spawn } from './spawn.ts';

/** Long enough for a busy machine; a sandbox that takes longer to start `exit 0` is no use. */
const PROBE_TIMEOUT_MS = 10_000;
const MAX_REASON_CHARS = 300;

export type ProbeResult =
  | { readonly works: true; readonly isolation: readonly string[] }
  | { readonly works: false; readonly why: string; readonly timedOut: boolean };

/** From strict to less so: without the second option a server may still make namespaces of its own. */
const userNamespaces: readonly (readonly string[])[] = [['--unshare-user', '--disable-userns'], []];

/** What every sandbox has, whatever its record lists. */
function isolationArguments(network: SandboxNetwork, userNamespace: readonly string[]): string[] {
  return [
    '--unshare-all',
    ...(network === 'allow' ? ['--share-net'] : []),
    ...userNamespace,
    '--die-with-parent',
    '--new-session',
    '--cap-drop',
    'ALL',
    '--clearenv',
  ];
}

/** Tries whether a sandbox can really be made here: being installed says little, least of all in a container. */
export async function probeSandbox(command: string, network: SandboxNetwork, spawn: Spawn): Promise<ProbeResult> {
  const mounts = mountArguments(await systemMounts(network));
  let result: ProbeResult = { works: false, why: 'the sandbox was not probed', timedOut: false };
  for (const userNamespace of userNamespaces) {
    const isolation = isolationArguments(network, userNamespace);
    const args = [...isolation, ...mounts, '--remount-ro', '/', '--', '/bin/sh', '-c', 'exit 0'];
    const failure = await attempt(command, args, spawn);
    if (failure === null) return { works: true, isolation };
    result = { works: false, ...failure };
    if (failure.timedOut) break;
  }
  return result;
}

/** Null: it ran. */
function attempt(
  command: string,
  args: readonly string[],
  spawn: Spawn,
): Promise<{ readonly why: string; readonly timedOut: boolean } | null> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], env: {}, detached: true });
    let said = '';
    child.stderr?.on('data', (chunk: Buffer) => {
      if (said.length < MAX_REASON_CHARS) said += chunk.toString('utf8');
    });
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      resolve({ why: `${command} did not start a process within ${PROBE_TIMEOUT_MS} ms`, timedOut: true });
    }, PROBE_TIMEOUT_MS);
    child.once('error', (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      resolve({ why: `${command} cannot be started (${error.code ?? error.message})`, timedOut: false });
    });
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      const reason = startOf(said.trim().split('\n', 1)[0] ?? '', MAX_REASON_CHARS) || (signal ?? `exit code ${code}`);
      resolve(code === 0 ? null : { why: `${command} does not work here: ${reason}`, timedOut: false });
    });
  });
}
