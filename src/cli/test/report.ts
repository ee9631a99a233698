import { visible } from '../../base/visible-text.ts';
import type { JudgedRun } from '../replay-tests/judgement.ts';

/** Report of one run; empty for an unchanged run. */
export function runText(judged: JudgedRun): string {
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
export function runJson(judged: JudgedRun): string {
  const { file, run, task, verdict, difference, problem, unfinished, noLongerShown } = judged;
  return `${JSON.stringify({ file, run, task, verdict, difference, problem, unfinished, no_longer_shown: noLongerShown })}\n`;
}

export function summaryText(runs: readonly JudgedRun[], total: number): string {
  const count = (verdict: JudgedRun['verdict']) => runs.filter((run) => run.verdict === verdict).length;
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
