import { visible } from '../../base/text.ts';
import { componentCacheDirectory } from '../../config/directories.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import type { Call } from '../command-table.ts';
import { exitCodes, spearExitCodes, UsageError } from '../exit-codes.ts';
import type { JournalKeyFlags } from '../journal/flags.ts';
import { journalKeyOf } from '../journal/key-flag.ts';
import type { TestedRun } from './outcome.ts';
import { testJournals } from './test-journals.ts';

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
    const { runs, total } = await testJournals({
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
function exitCodeOf(runs: readonly TestedRun[]): number {
  const has = (verdict: TestedRun['verdict']) => runs.some((run) => run.verdict === verdict);
  if (has('unusable') || !(has('same') || has('differs'))) return spearExitCodes.usage;
  return has('differs') ? spearExitCodes.failed : spearExitCodes.ok;
}

/** Report of one run; empty for an unchanged run. */
export function runText(judged: TestedRun): string {
  const { file, verdict, difference, problem, noLongerShown } = judged;
  const hidden =
    noLongerShown.length === 0 ? '' : `  tools no longer offered: ${noLongerShown.map(visible).join(', ')}\n`;
  switch (verdict) {
    case 'same':
      return hidden === '' ? '' : `${visible(file)}: unchanged\n${hidden}`;
    case 'differs':
      return (
        `${visible(file)}: differs at ${visible(difference?.where ?? '')}\n` +
        `  recorded: ${visible(difference?.recorded ?? '')}\n` +
        `  now:      ${visible(difference?.now ?? '')}\n${hidden}`
      );
    case 'unusable':
      return `${visible(problem ?? file)}\n`;
    case 'unjudged':
      return `${visible(file)}: not tested: ${visible(problem ?? '')}\n`;
  }
}

/** One line of JSON. */
export function runJson(judged: TestedRun): string {
  const { file, run, task, verdict, difference, problem, unfinished, noLongerShown } = judged;
  return `${JSON.stringify({ file, run, task, verdict, difference, problem, unfinished, no_longer_shown: noLongerShown })}\n`;
}

export function summaryText(runs: readonly TestedRun[], total: number): string {
  const count = (verdict: TestedRun['verdict']) => runs.filter((run) => run.verdict === verdict).length;
  const unfinished = runs.filter((run) => run.unfinished).length;
  const parts = [
    `${count('same')} unchanged`,
    `${count('differs')} differ`,
    ...(count('unusable') === 0 ? [] : [`${count('unusable')} unusable`]),
    ...(count('unjudged') === 0 ? [] : [`${count('unjudged')} not tested`]),
    ...(unfinished === 0 ? [] : [`${unfinished} unfinished runs tested up to the end of their journals`]),
  ];
  const judged = runs.length === total ? `${total}` : `${runs.length} of ${total}`;
  return `${judged} ${total === 1 ? 'run' : 'runs'}: ${parts.join(', ')}\n`;
}

const REDRAWN_EVERY_MS = 100;
const ERASE = '\r\u001b[K';

/** Progress line on a terminal; erased before other output. */
export class Progress {
  readonly #screen: Pick<NodeJS.WriteStream, 'write' | 'isTTY'>;
  #drawnAt = 0;
  #isDrawn = false;

  constructor(screen: Pick<NodeJS.WriteStream, 'write' | 'isTTY'>) {
    this.#screen = screen;
  }

  show(text: string): void {
    const now = performance.now();
    if (!this.#screen.isTTY || now - this.#drawnAt < REDRAWN_EVERY_MS) return;
    this.#drawnAt = now;
    this.#isDrawn = true;
    this.#screen.write(`${ERASE}${text}`);
  }

  erase(): void {
    if (this.#isDrawn) this.#screen.write(ERASE);
    this.#isDrawn = false;
  }
}
