import type { RunResult } from '../run/run-guest.ts';
import { exitCodes } from './exit-codes.ts';

const signalCodes: Partial<Record<string, number>> = { SIGTERM: exitCodes.terminated, SIGHUP: exitCodes.hungUp };

/** What a command exits with that was ended by a signal. */
export const signalCode = (signal: unknown): number => signalCodes[String(signal)] ?? exitCodes.interrupted;

/** What a command exits with whose guest ended like this; `signal`: the one that interrupted it, if one did. */
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
    case 'journal':
    case 'lost':
    case 'parked':
    case 'internal':
      return exitCodes.usage;
  }
}
