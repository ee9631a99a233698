import { visible } from '../../base/visible-text.ts';
import { componentCacheDirectory } from '../../config/cache-directory.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import type { Call } from '../command-table.ts';
import { exitCodes, spearExitCodes } from '../exit-codes.ts';
import type { JournalKeyFlags } from '../journal/flags.ts';
import { journalKeyOf } from '../journal/key-flag.ts';
import { judgeJournals } from '../replay-tests/judge-journals.ts';
import type { JudgedRun } from '../replay-tests/judgement.ts';
import { UsageError } from '../usage-error.ts';
import { Progress, runJson, runText, summaryText } from './report.ts';

interface TestFlags extends JournalKeyFlags {
  readonly journals: readonly string[];
  readonly wasm: string | undefined;
  readonly policy: readonly string[];
  readonly strict: boolean;
  readonly jobs: number | undefined;
  readonly json: boolean;
}

/** `spear test --journals PATH`: replays recorded runs against a changed guest or policy. */
export async function testCommand({ flags }: Call<TestFlags>): Promise<number> {
  const { journals, wasm, strict, jobs, json } = flags;
  const policy = flags.policy.length === 0 ? undefined : flags.policy;
  if (strict && policy === undefined) throw new UsageError('--strict needs --policy');

  const interruption = new AbortController();
  const interrupt = () => interruption.abort();
  const progress = new Progress(process.stderr);
  const show = (stream: NodeJS.WriteStream, text: string) => {
    if (text === '') return;
    progress.erase();
    stream.write(text);
  };
  let judged = 0;
  let different = 0;
  process.once('SIGINT', interrupt);
  process.once('SIGTERM', interrupt);
  process.stdout.on('error', interrupt); // the reader is gone
  try {
    const { runs, total } = await judgeJournals({
      journals,
      wasm,
      policy,
      key: () => journalKeyOf(flags),
      strict,
      jobs,
      signal: interruption.signal,
      componentCache: componentCacheDirectory(processEnvironment),
      onNotice: (text) => show(process.stderr, `spear: ${visible(text)}\n`),
      onRun: (run, of) => {
        judged += 1;
        if (run.verdict === 'differs') different += 1;
        show(process.stdout, json ? runJson(run) : runText(run));
        progress.show(`${judged} of ${of} runs tested, ${different} differ`);
      },
    });
    show(json ? process.stderr : process.stdout, summaryText(runs, total));
    progress.erase();
    return interruption.signal.aborted && runs.length < total ? exitCodes.interrupted : exitCodeOf(runs);
  } finally {
    process.off('SIGINT', interrupt);
    process.off('SIGTERM', interrupt);
  }
}

/** An unusable journal makes the whole result unusable. */
function exitCodeOf(runs: readonly JudgedRun[]): number {
  const has = (verdict: JudgedRun['verdict']) => runs.some((run) => run.verdict === verdict);
  if (has('unusable') || !(has('same') || has('differs'))) return spearExitCodes.usage;
  return has('differs') ? spearExitCodes.failed : spearExitCodes.ok;
}
