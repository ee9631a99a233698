import type { Readable } from 'node:stream';
import { ConfigError } from '../../config/config-error.ts';
import type { CompiledHostConfig } from '../../config/host/host-config.ts';
import type { ApprovalOptions } from '../../mcp/approval/gate.ts';
import type { ApprovalRule } from '../../policy/approval-rules.ts';
import { parseApprovalRules } from '../../policy/approval-rules-parse.ts';
import type { Limits } from '../../protocol/limits.ts';
import { hasTerminal, Terminal } from '../terminal.ts';
import { UsageError } from '../usage-error.ts';
import { createPromptDecider, type PromptPorts } from './approval-prompt.ts';
import type { RunFlags } from './flags.ts';
import { waits } from './output.ts';

export interface ApprovalSources {
  readonly flags: Pick<RunFlags, 'approve'>;
  readonly host: Pick<CompiledHostConfig, 'file' | 'mcp'>;
  readonly limits: Pick<Limits, 'approval_timeout_ms'>;
  readonly taskName: string | null;
  readonly say: (text: string) => void;
}

export interface RunApprovals {
  readonly options: ApprovalOptions;
  /** The guest's input where it has to be shared with prompts; null: nothing is shared. */
  readonly stdin: () => Readable | null;
}

/** How the calls of this run are approved: by which rules, and by whom. */
export function openApprovals(sources: ApprovalSources, taskRules: readonly ApprovalRule[]): RunApprovals {
  const { flags, limits, taskName } = sources;
  const options: ApprovalOptions = {
    task: taskName,
    rules: Object.freeze({ node: nodeRules(sources), task: taskRules }),
    timeoutMs: limits.approval_timeout_ms,
  };
  const canAsk = flags.approve !== 'deny' && hasTerminal();
  if (flags.approve === 'prompt' && !canAsk) {
    throw new UsageError('--approve prompt: there is no terminal to ask on (/dev/tty); --approve deny denies instead');
  }
  if (!canAsk) return { options, stdin: () => null };
  const terminal = new Terminal();
  const decide = createPromptDecider({
    open: () => whileHeld(() => terminal.open()),
    interrupt: () => process.kill(process.pid, 'SIGINT'),
  });
  return { options: { ...options, decide, decidedBy: 'terminal' }, stdin: () => terminal.guestInput() };
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

function nodeRules({ host, say }: ApprovalSources): readonly ApprovalRule[] {
  const parsed = parseApprovalRules(host.mcp.approvalRules);
  const describe = ({ path, message }: { path: string; message: string }) =>
    `${host.file}: mcp.approval_rules${path}: ${message}`;
  if (!parsed.ok) throw new ConfigError(parsed.issues.map(describe).join('\n'));
  for (const warning of parsed.warnings) say(describe(warning));
  return parsed.rules;
}
