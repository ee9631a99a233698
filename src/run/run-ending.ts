import { systemErrorOf } from '../base/errors.ts';
import { ModuleError } from '../runtime/abi/guest-module.ts';
import { type EndRecord, isResumable } from '../runtime/durable/journal.ts';
import type { RunReason, RunResult } from '../runtime/host/run-result.ts';
import type { Limits } from '../runtime/port/limits.ts';
import type { GuestReport, ReplayState } from '../runtime/port/port.ts';

/** How a guest ended. */
export type Ending = Pick<RunResult, 'reason' | 'exitCode' | 'message' | 'systemError' | 'problem' | 'stack'>;

export function ended(reason: RunReason, message: string, systemError: string | null = null): Ending {
  return { reason, exitCode: null, message, systemError, problem: null, stack: '' };
}

export function notLoaded(error: Error): Ending {
  if (!(error instanceof ModuleError)) return ended('internal', error.message, systemErrorOf(error));
  return { ...ended('module', error.message), problem: error.problem };
}

export function outOfTime(limits: Limits): Ending {
  return ended('deadline', `the guest ran longer than limits.timeout_ms = ${limits.timeout_ms}`);
}

export function fromReport({ ending }: GuestReport): Ending {
  if (ending.kind === 'exit') return { ...ended('exit', ''), exitCode: ending.code, message: null };
  if (ending.kind === 'trap') return { ...ended('trap', ending.message), stack: ending.stack };
  return ended('module', ending.message);
}

/** Ending of a replay whose guest did not end by itself. */
export function replayed(state: ReplayState, detail: string, end: EndRecord | null): Ending {
  if (state === 'diverged')
    return ended('diverged', `nondeterminism detected: the run diverged from its journal ${detail}`);
  if (end === null) return ended('interrupted', 'the journal ends before the run ended');
  return fromEnd(end);
}

const fromEnd = ({ reason, exit, message }: EndRecord): Ending => ({
  ...ended(reason as RunReason, ''),
  exitCode: exit,
  message,
});

/** Result of a run whose journal has a final end; null: the run can be resumed. */
export function endedBefore(end: EndRecord | null | undefined, onNotice: (text: string) => void): RunResult | null {
  if (end == null || isResumable(end)) return null;
  onNotice('the run of this journal has already ended: nothing to resume');
  return {
    ...fromEnd(end),
    isolation: { kind: 'thread', why: null },
    durations: { loadMs: 0, runMs: 0, totalMs: 0 },
    hostcalls: {},
    chat: noChat(),
    traceId: null,
    droppedLogLines: 0,
    degraded: [],
  };
}

/** Totals of a guest without chat. */
export const noChat = (): RunResult['chat'] => ({ sends: 0, iterations: 0, toolCalls: 0, usage: {} });
