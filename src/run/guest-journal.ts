import { journalKey } from '../runtime/durable/blocks.ts';
import type { JournalHeader } from '../runtime/durable/journal.ts';
import { JournalError } from '../runtime/durable/journal-error.ts';
import { type JournalOpening, recordJournal, replayJournal, resumeJournal } from '../runtime/durable/open-journal.ts';
import type { RunJournal } from '../runtime/durable/run-journal.ts';
import { compileLimits, type LimitName, type Limits, limitNames } from '../runtime/port/limits.ts';
import { usesRelaxedSimd } from '../runtime/wasm/instructions.ts';
import type { CompiledJournal, CompiledRunOptions } from './run-options.ts';

const RELAXED_SIMD = 'the module uses relaxed SIMD, whose results differ between machines: its runs cannot be replayed';

/** Options that a journal overrides with their recorded values. */
type Begun = Pick<CompiledRunOptions, 'run' | 'args' | 'env' | 'limits' | 'verbose' | 'allowUnknownImports'>;

/** Opens the journal of a run, and returns the options that the run began with. @throws JournalError */
export async function openGuestJournal(
  options: CompiledRunOptions,
  journal: CompiledJournal,
  onFull: (why: JournalError) => void,
): Promise<{ readonly journal: RunJournal; readonly begun: Begun }> {
  const { run, args, env, limits, verbose, allowUnknownImports, onNotice } = options;
  const { file, sync, place, restored } = journal;
  const key = journal.key === null ? null : journalKey(journal.key);
  const opening: JournalOpening = { file, sync, storage: place, restored, key, onFull, onNotice };
  const wasm = await options.wasm;
  if (usesRelaxedSimd(wasm)) throw new JournalError(journal.file, RELAXED_SIMD);
  if (journal.mode === 'record') {
    const beginning = {
      run,
      args,
      env,
      limits,
      verbose,
      unknown_imports: allowUnknownImports,
      streams: options.streams !== null,
    };
    const task = options.mcp?.taskName ?? null;
    const { module: wasmPath, command } = journal;
    const opened = recordJournal(opening, wasm, { ...beginning, task, wasmPath, command });
    return { journal: opened, begun: options };
  }
  const open = journal.mode === 'resume' ? resumeJournal : replayJournal;
  const opened = open(opening, wasm, limits.journal_bytes);
  return { journal: opened, begun: begunAs(opened, journal.file, limits) };
}

/** The recorded options; only the limit of the journal may change. */
function begunAs({ header }: RunJournal, file: string, { journal_bytes }: Limits): Begun {
  try {
    const { limits, ...begun } = beginningOf(header);
    return { ...begun, limits: compileLimits({ ...limits, journal_bytes }) };
  } catch (error) {
    throw new JournalError(file, (error as Error).message);
  }
}

/** The recorded options of a run; limits unknown to this version are left out. */
export function beginningOf(header: Omit<JournalHeader, 'policy'>) {
  const { run, args, env, verbose, unknown_imports: allowUnknownImports } = header;
  const known = Object.entries(header.limits).filter(([name]) => limitNames.some((limit) => limit === name));
  const limits = Object.fromEntries(known) as Record<LimitName, number>;
  return { run, args, env, limits, verbose, allowUnknownImports };
}
