import type { TopicEnd } from './topic.ts';

/** The findings of a topic as rows of a Markdown table. */
export function rowsOf(topic: string, { findings, wasCut }: TopicEnd): string[] {
  return findings.map(({ what, count, lost, crashed, measured, failures }) => {
    const verdict = failures.length > 0 ? '**not reached**' : wasCut ? 'no failure, stopped by time limit' : 'reached';
    return `| ${[topic, what, count.toLocaleString('en'), lost, crashed, measured, verdict].join(' | ')} |`;
  });
}

export const heading: readonly string[] = [
  '| topic | what | how many | lost | crashed | measured | figure |',
  '|---|---|---|---|---|---|---|',
];
