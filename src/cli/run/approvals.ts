import { Writable } from 'node:stream';
import { isatty } from 'node:tty';
import { ToolEvents } from '../../agent/mcp/tool-events.ts';
import type { TaskRunOptions } from '../../run/run-options.ts';
import type { OutputOption, OutputTarget } from '../../runtime/host/guest-stdio.ts';
import { UsageError } from '../exit-codes.ts';
import { hasTerminal, Terminal } from '../terminal.ts';
import { createPromptDecider } from './approval-prompt.ts';
import { createElicitationPrompt } from './elicitation-prompt.ts';
import type { RunFlags } from './flags.ts';
import { holdOutput, say, writeGuestBytes } from './output.ts';
import { type PromptPorts, PromptTurns } from './prompt-terminal.ts';

/** Approvals and server questions of a run, and the guest's input and output where they share the terminal with prompts. */
export function openApprovals(
  flags: Pick<RunFlags, 'approve' | 'sms'>,
  guestFds: { readonly stdout: number; readonly stderr: number },
): Pick<TaskRunOptions, 'approve' | 'elicit' | 'decidedBy' | 'stdin' | 'output' | 'events'> {
  if (flags.approve === 'sms') {
    if (flags.sms !== undefined) return { approve: 'sms', decidedBy: 'sms' };
    throw new UsageError('--approve sms needs --sms ADDRESS of the registry');
  }
  const canAsk = flags.approve !== 'deny' && hasTerminal();
  if (flags.approve === 'prompt' && !canAsk) {
    throw new UsageError('--approve prompt: no terminal (/dev/tty); use --approve deny or sms');
  }
  if (!canAsk) {
    const why = flags.approve === 'deny' ? '--approve deny' : 'no terminal';
    return { events: reportDeniedApprovals(why, say) };
  }
  const terminal = new Terminal();
  const ports: PromptPorts = {
    open: () => whileHeld(() => terminal.open()),
    interrupt: () => process.kill(process.pid, 'SIGINT'),
  };
  const turns = new PromptTurns();
  const approve = createPromptDecider(ports, turns);
  const elicit = createElicitationPrompt(ports, turns);
  const stdin = () => terminal.guestInput() ?? process.stdin;
  return { approve, elicit, decidedBy: 'terminal', stdin, output: gatedOutput(guestFds) };
}

type OpenTerminal = ReturnType<PromptPorts['open']>;

/** Holds other output while a prompt is open: a server, a model or a guest could draw over it. */
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

const STDOUT = 1;

/** Guest output on a terminal with prompts: held while a prompt is open; the guest blocks as for any slow reader. */
export function gatedOutput(fds: { readonly stdout: number; readonly stderr: number }): OutputOption {
  return { stdout: gated(fds.stdout), stderr: gated(fds.stderr) };
}

function gated(fd: number): OutputTarget {
  if (!isatty(fd)) return fd;
  const stream = fd === STDOUT ? 'stdout' : 'stderr';
  return new Writable({
    highWaterMark: 1,
    write: (bytes: Uint8Array, _encoding, done) => writeGuestBytes(stream, bytes, done),
  });
}

/** Tools that are reported; a guest can invent names. */
const MAX_REPORTED = 50;

/**
 * Tool events of a run that can ask no user: reports each tool whose call was denied for lack of an approval, once, and
 * how to allow it. `why`: why no user can be asked.
 */
export function reportDeniedApprovals(why: string, say: (text: string) => void): ToolEvents {
  const reported = new Set<string>();
  const events = new ToolEvents();
  events.subscribe(({ server, tool, denial }) => {
    const key = JSON.stringify([server, tool]);
    if (denial !== 'approval_required' || reported.has(key) || reported.size >= MAX_REPORTED) return;
    reported.add(key);
    say(
      `approval denied: ${server} ${tool} needs an approval, and no user can be asked (${why}). To allow it, run ` +
        'spear-run in a terminal or with --approve sms; where approval_policy is "policy", an mcp.approval_rules entry ' +
        'with verdict "allow" needs no user',
    );
  });
  return events;
}
