import { visible } from '../../base/visible-text.ts';
import type { JudgedRun } from '../../judge/judgement.ts';

/** What a person reads of one run; empty where there is nothing to say. */
export function runText(judged: JudgedRun): string {
  const { file, verdict, difference, problem, noLongerShown } = judged;
  const hidden = noLongerShown.length === 0 ? '' : `  no longer shown: ${noLongerShown.map(visible).join(', ')}\n`;
  switch (verdict) {
    case 'same':
      return hidden === '' ? '' : `${visible(file)}: the same\n${hidden}`;
    case 'differs':
      return (
        `${visible(file)}: differs at ${visible(difference?.where ?? '')}\n` +
        `  recorded: ${visible(difference?.recorded ?? '')}\n` +
        `  now:      ${visible(difference?.now ?? '')}\n${hidden}`
      );
    case 'unusable':
      return `${visible(problem ?? file)}\n`;
    case 'unjudged':
      return `${visible(file)}: not judged: ${visible(problem ?? '')}\n`;
  }
}

/** For programs: a line. */
export function runJson(judged: JudgedRun): string {
  const { file, run, task, verdict, difference, problem, unfinished, noLongerShown } = judged;
  return `${JSON.stringify({ file, run, task, verdict, difference, problem, unfinished, no_longer_shown: noLongerShown })}\n`;
}

export function summaryText(runs: readonly JudgedRun[], total: number): string {
  const count = (verdict: JudgedRun['verdict']) => runs.filter((run) => run.verdict === verdict).length;
  const unfinished = runs.filter((run) => run.unfinished).length;
  const parts = [
    `${count('same')} the same`,
    `${count('differs')} differ`,
    ...(count('unusable') === 0 ? [] : [`${count('unusable')} cannot be used`]),
    ...(count('unjudged') === 0 ? [] : [`${count('unjudged')} not judged`]),
    ...(unfinished === 0 ? [] : [`${unfinished} judged as far as their journals go`]),
  ];
  const judged = runs.length === total ? `${total}` : `${runs.length} of ${total}`;
  return `${judged} ${total === 1 ? 'run' : 'runs'}: ${parts.join(', ')}\n`;
}
