import type { RunResult } from '../run/run-guest.ts';
import { exitCodes } from './exit-codes.ts';

const signalCodes: Partial<Record<string, number>> = { SIGTERM: exitCodes.terminated, SIGHUP: exitCodes.hungUp };

/** Exit code of a command that a signal ended. */
export const signalCode = (signal: unknown): number => signalCodes[String(signal)] ?? exitCodes.interrupted;

/** Exit code for the end of a guest; `signal`: the signal that interrupted it, if any. */
export function runExitCode(
  { reason, exitCode: own }: Pick<RunResult, 'reason' | 'exitCode'>,
  signal: unknown,
): number {
  switch (reason) {
    case 'exit':
      return (own ?? 0) & 0xff;
    case 'deadline':
      return exitCodes.deadline;
    case 'interrupted':
      return signalCode(signal);
    case 'trap':
    case 'memory':
      return exitCodes.trap;
    case 'diverged':
      return exitCodes.diverged;
    case 'module':
    case 'required_server':
    case 'journal':
    case 'lost':
    case 'parked':
    case 'internal':
      return exitCodes.usage;
  }
}
