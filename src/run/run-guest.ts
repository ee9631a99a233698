import type { JournalError } from '../runtime/durable/journal-error.ts';
import type { RunJournal } from '../runtime/durable/run-journal.ts';
import type { GuestScheduler } from '../runtime/host/guest-scheduler.ts';
import type { GuestThreads } from '../runtime/host/guest-threads.ts';
import type { RunResult } from '../runtime/host/run-result.ts';
import { HostedGuest } from './hosted-guest.ts';
import type { LongWaitsOption, WaitingRun } from './long-waits.ts';
import { endedBefore } from './run-ending.ts';
import { RunMetrics } from './run-metrics.ts';
import { type CompiledJournal, type CompiledRunOptions, compileRunOptions, type RunOptions } from './run-options.ts';

export type { RunReason, RunResult } from '../runtime/host/run-result.ts';

/**
 * Runs one guest, from its bytes to its end: on a dedicated thread, or with others on `threads`. Never throws for what the
 * guest does.
 * @throws ConfigError, RangeError for options; whatever a callback for its output throws
 */
export async function runGuest(given: RunOptions): Promise<RunResult> {
  // Holds as little as possible while the guest runs: thousands of guests may wait.
  const guest = await begin(given);
  if (!(guest instanceof HostedGuest)) return guest;
  return guest.leave(await guest.ended);
}

/** Opens what the run needs and starts the guest, or returns the result of a run that has already ended. */
async function begin(given: RunOptions): Promise<HostedGuest | RunResult> {
  const asked = compileRunOptions(given);
  const full = asked.journal === null ? null : Promise.withResolvers<JournalError>();
  const opened = asked.journal === null || full === null ? null : await openJournal(asked, asked.journal, full.resolve);
  const journal = opened?.journal ?? null;
  try {
    return await start(asked, journal, opened === null ? asked : { ...asked, ...opened.begun }, full?.promise ?? null);
  } catch (error) {
    // Only the guest closes the journal, and it did not start.
    journal?.abandon();
    throw error;
  }
}

async function start(
  asked: CompiledRunOptions,
  journal: RunJournal | null,
  compiled: CompiledRunOptions,
  full: Promise<JournalError> | null,
): Promise<HostedGuest | RunResult> {
  if (journal !== null && !journal.isReplay) {
    const before = endedBefore(journal.recorded?.end, asked.onNotice);
    if (before !== null) {
      journal.abandon();
      return before;
    }
  }
  // Journals of earlier versions were recorded on a dedicated thread, and their positions are those of such a thread.
  const threads = journal?.replayStart.wakesAtStart ? null : asked.threads;
  const scheduler = threads === null ? null : (knownScheduler(threads) ?? (await openScheduler(threads)));
  let guest: HostedGuest | null = null;
  const metrics = compiled.metrics && new RunMetrics(compiled, compiled.metrics, () => guest?.hostcalls() ?? {});
  const counted = metrics?.options ?? compiled;
  // A replay has no effects to trace.
  const tracing = journal?.isReplay ? null : counted.tracing;
  const trace = tracing && new (await import('./run-trace.ts')).RunTrace(counted, tracing, journal?.attempt ?? 1);
  const options = trace?.options ?? counted;
  const openWaits = options.waits === null || journal === null ? null : await waitsFor(options.waits);
  guest = new HostedGuest({ options, journal, full, metrics, trace, scheduler, openWaits });
  return guest;
}

/** Loaded only for runs with a journal. */
async function openJournal(options: CompiledRunOptions, journal: CompiledJournal, onFull: (why: JournalError) => void) {
  const { openGuestJournal } = await import('./guest-journal.ts');
  return openGuestJournal(options, journal, onFull);
}

/** Loaded only for runs that may be parked. */
async function waitsFor(option: LongWaitsOption) {
  const { LongWaits } = await import('./long-waits.ts');
  return (run: WaitingRun) => new LongWaits(option, run);
}

let schedulerOf: ((threads: object) => GuestScheduler) | null = null;

const knownScheduler = (threads: GuestThreads): GuestScheduler | null => schedulerOf?.(threads) ?? null;

/** Loaded only for shared threads, and once: the import takes longer than the start of a guest. */
async function openScheduler(threads: GuestThreads): Promise<GuestScheduler> {
  ({ schedulerOf } = await import('../runtime/host/guest-scheduler.ts'));
  return schedulerOf(threads);
}
