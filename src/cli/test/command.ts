import { visible } from '../../base/visible-text.ts';
import { componentCacheDirectory } from '../../config/cache-directory.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { judgeJournals } from '../../judge/judge-journals.ts';
import type { JudgedRun } from '../../judge/judgement.ts';
import { exitCodes, spearExitCodes } from '../exit-codes.ts';
import { journalKeyOf, journalKeyOptions } from '../journal/key-flag.ts';
import { parseFlags, wholeNumber } from '../parse-flags.ts';
import { UsageError } from '../usage-error.ts';
import { testHelp } from './help.ts';
import { Progress } from './progress.ts';
import { runJson, runText, summaryText } from './report.ts';

const options = {
  ...journalKeyOptions,
  journals: { type: 'string', multiple: true },
  wasm: { type: 'string' },
  policy: { type: 'string', multiple: true },
  strict: { type: 'boolean' },
  jobs: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

const MAX_JOBS = 64;

/** `spear test --journals DIR`: recorded runs against what has changed since. */
export async function testCommand(argv: readonly string[]): Promise<number> {
  const { values, positionals } = parseFlags(argv, options, 'spear test');
  if (values.help) {
    process.stdout.write(testHelp);
    return spearExitCodes.ok;
  }
  const [word] = positionals;
  if (word !== undefined)
    throw new UsageError(`spear test takes no ${JSON.stringify(word)}; --journals names the runs`);
  const { journals, wasm, policy, strict = false, json = false } = values;
  if (journals === undefined) throw new UsageError('which runs? --journals DIR names a directory of journals');
  if (strict && policy === undefined) throw new UsageError('--strict is about --policy, and there is none');
  const jobs = wholeNumber('jobs', values.jobs, { min: 1, max: MAX_JOBS });

  const interruption = new AbortController();
  const interrupt = () => interruption.abort();
  const progress = new Progress(process.stderr);
  const tell = (stream: NodeJS.WriteStream, text: string) => {
    if (text === '') return;
    progress.erase();
    stream.write(text);
  };
  let judged = 0;
  let different = 0;
  process.once('SIGINT', interrupt);
  process.once('SIGTERM', interrupt);
  process.stdout.on('error', interrupt); // nobody reads what else is found
  try {
    const { runs, total } = await judgeJournals({
      journals,
      wasm,
      policy,
      key: () => journalKeyOf(values),
      strict,
      jobs,
      signal: interruption.signal,
      componentCache: componentCacheDirectory(processEnvironment),
      onNotice: (text) => tell(process.stderr, `spear: ${visible(text)}\n`),
      onRun: (run, of) => {
        judged += 1;
        if (run.verdict === 'differs') different += 1;
        tell(process.stdout, json ? runJson(run) : runText(run));
        progress.show(`${judged} of ${of} runs judged, ${different} differ`);
      },
    });
    tell(json ? process.stderr : process.stdout, summaryText(runs, total));
    progress.erase();
    return interruption.signal.aborted && runs.length < total ? exitCodes.interrupted : exitCodeOf(runs);
  } finally {
    process.off('SIGINT', interrupt);
    process.off('SIGTERM', interrupt);
  }
}

/** A journal that cannot be used says nothing, so all together say nothing for sure. */
function exitCodeOf(runs: readonly JudgedRun[]): number {
  const has = (verdict: JudgedRun['verdict']) => runs.some((run) => run.verdict === verdict);
  if (has('unusable') || !(has('same') || has('differs'))) return spearExitCodes.usage;
  return has('differs') ? spearExitCodes.failed : spearExitCodes.ok;
}
