import type { TaskRunOptions } from '../../run/task-options.ts';
import { hasTerminal, Terminal } from '../terminal.ts';
import { UsageError } from '../usage-error.ts';
import { createPromptDecider, type PromptPorts } from './approval-prompt.ts';
import type { RunFlags } from './flags.ts';
import { gatedOutput } from './gated-output.ts';
import { holdOutput } from './output.ts';

/** Who approves the calls of a run, and the guest's input and output where they share the terminal with prompts. */
export function openApprovals(
  { approve }: Pick<RunFlags, 'approve'>,
  guestFds: { readonly stdout: number; readonly stderr: number },
): Pick<TaskRunOptions, 'approve' | 'decidedBy' | 'stdin' | 'output'> {
  const canAsk = approve !== 'deny' && hasTerminal();
  if (approve === 'prompt' && !canAsk) {
    throw new UsageError('--approve prompt: there is no terminal to ask on (/dev/tty); --approve deny denies instead');
  }
  if (!canAsk) return {};
  const terminal = new Terminal();
  const decide = createPromptDecider({
    open: () => whileHeld(() => terminal.open()),
    interrupt: () => process.kill(process.pid, 'SIGINT'),
  });
  const stdin = () => terminal.guestInput() ?? process.stdin;
  return { approve: decide, decidedBy: 'terminal', stdin, output: gatedOutput(guestFds) };
}

type OpenTerminal = ReturnType<PromptPorts['open']>;

/** Nothing else is written while the question is open: a server, a model or a guest could paint over it. */
function whileHeld(open: () => OpenTerminal): OpenTerminal {
  const release = holdOutput();
  try {
    const terminal = open();
    return {
      get columns() {
        return terminal.columns;
      },
      write: (text) => terminal.write(text),
      takeKeys: (onKeys, onLost) => terminal.takeKeys(onKeys, onLost),
      close: () => {
        terminal.close();
        release();
      },
    };
  } catch (error) {
    release();
    throw error;
  }
}
