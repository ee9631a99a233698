import { ConfigError } from '../../config/config-error.ts';
import type { TaskRunOptions } from '../../run/run-options.ts';
import { openStreamListener } from '../../run/streams/open-stream-listener.ts';
import type { StreamAddress } from '../../run/streams/stream-listener.ts';
import { UsageError } from '../exit-codes.ts';
import { auditsToStdout } from './audit.ts';
import type { RunFlags } from './flags.ts';

/** Client side of the user streams (`--stream`). With stdio the guest has no stdin. */
export async function openStreams(
  address: StreamAddress,
  flags: RunFlags,
  closers: (() => unknown)[],
  say: (text: string) => void,
): Promise<Pick<TaskRunOptions, 'streams' | 'stdin'>> {
  if (address.kind === 'stdio' && (flags.json || auditsToStdout(flags))) {
    throw new UsageError(`--stream stdio and ${flags.json ? '--json' : '--audit -'} both write to stdout`);
  }
  const stdio = () => ({ input: process.stdin, output: process.stdout });
  const streams = await openStreamListener({ address, stdio, onProblem: say }).catch((error: Error) => {
    throw new ConfigError(`--stream: ${error.message}`);
  });
  closers.push(() => streams.close());
  if (streams.address !== null) say(`user streams at ${streams.address}`);
  return address.kind === 'stdio' ? { streams, stdin: () => null } : { streams };
}
