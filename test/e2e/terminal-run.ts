import { OnTerminal } from '../support/on-terminal.ts';
import { command, projectNode, scratch } from './spear-run.ts';

/** `spear-run` on a terminal of its own; what the guest prints goes to a file. */
export function runOnTerminal(
  args: readonly string[],
  /** `stdin`: a file for the guest to read; `pid`: a file for the id of the process. */
  options: { readonly stdin?: string; readonly pid?: string; readonly env?: Readonly<Record<string, string>> } = {},
): OnTerminal {
  const { pid = '/dev/null', env, ...rest } = options;
  const noted = ['sh', '-c', 'echo $$ > "$0"; exec "$@"', pid];
  return new OnTerminal([...noted, projectNode, command, ...args], {
    ...rest,
    ownOutput: true,
    env: { HOME: scratch, ...env },
  });
}
