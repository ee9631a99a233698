import type { TaskRunOptions } from '../../run/task-options.ts';
import { hasTerminal, Terminal } from '../terminal.ts';
import { UsageError } from '../usage-error.ts';
import { createPromptDecider, type PromptPorts } from './approval-prompt.ts';
import type { RunFlags } from './flags.ts';
import { waits } from './output.ts';

/** Who approves the calls of a run, and the guest's input where it has to be shared with prompts. */
export function openApprovals({
  approve,
}: Pick<RunFlags, 'approve'>): Pick<TaskRunOptions, 'approve' | 'decidedBy' | 'stdin'> {
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
  return { approve: decide, decidedBy: 'terminal', stdin: () => terminal.guestInput() ?? process.stdin };
}

type OpenTerminal = ReturnType<PromptPorts['open']>;

/** Nobody wants to read what is waited for in the middle of a question. */
function whileHeld(open: () => OpenTerminal): OpenTerminal {
  const release = waits.hold();
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
