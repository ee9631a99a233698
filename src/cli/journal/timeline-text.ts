import { visible } from '../../base/text.ts';
import { durationOf, type Timeline, type TimelineEntry } from '../../server/timeline/timeline-entry.ts';
import { cutNote, durationText, endOf, totalsText, whenText, wordsOf } from '../../server/timeline/timeline-words.ts';
import { type Colour, type Paint, paintFor } from '../formatting.ts';

const KIND_COLUMN = 9;
const TIME_COLUMN = 9;
const INDENT = ' '.repeat(TIME_COLUMN + TIME_COLUMN + KIND_COLUMN + 6);

const statusColours: Readonly<Record<TimelineEntry['status'], Colour>> = {
  ok: 'cyan',
  failed: 'red',
  denied: 'red',
  unknown: 'yellow',
  open: 'yellow',
};

/** A run for a terminal. Texts of guests, models and servers pass the gate: none of them reaches it as a command. */
export function timelineText(timeline: Timeline, colours: boolean): string {
  const paint = paintFor(colours);
  const { run, started, spear, task, module, args, env } = timeline;
  const head = [
    paint('bold', visible(run)) + (task === null ? '' : visible(` of task ${task}`)),
    visible(`${module.path ?? 'a module'} (sha256 ${module.sha256.slice(0, 12)}…)`),
    visible(args.map(({ text }) => JSON.stringify(text)).join(' ')),
    env.length === 0 ? '' : visible(`environment: ${env.join(', ')}`),
    `${whenText(started)}, Spear ${visible(spear)}`,
    totalsText(timeline).join(', '),
    paint(timeline.ended === null ? 'yellow' : 'dim', visible(endOf(timeline))),
  ];
  const lines = timeline.entries.flatMap((entry) => entryLines(entry, paint));
  return `${[...head.filter((line) => line !== ''), '', ...lines].join('\n')}\n`;
}

function entryLines(entry: TimelineEntry, paint: Paint): string[] {
  const { title, facts, texts } = wordsOf(entry);
  const inside = entry.send !== null && entry.kind !== 'send' ? '  ' : '';
  const colour = statusColours[entry.status];
  const line = [
    paint('dim', seconds(entry.start_ms).padStart(TIME_COLUMN)),
    paint('dim', taken(entry).padStart(TIME_COLUMN)),
    ` ${paint(colour, entry.kind.padEnd(KIND_COLUMN))}`,
    inside + visible(title) + (facts.length === 0 ? '' : paint(factColour(entry), visible(` · ${facts.join(' · ')}`))),
  ].join(' ');
  const more = texts.flatMap(({ label, text }) => {
    const note = cutNote(text);
    const rows = text.text.replace(/\n+$/, '').split('\n').map(visible);
    const [first = '', ...rest] = note === '' ? rows : [...rows.slice(0, -1), `${rows.at(-1)}… (${note})`];
    const begin = label === '' ? '' : `${paint('dim', `${visible(label)}:`)} `;
    return [`${INDENT}${inside}${begin}${first}`, ...rest.map((row) => `${INDENT}${inside}${row}`)];
  });
  return [line, ...more];
}

const factColour = ({ status }: TimelineEntry): Colour => (status === 'ok' ? 'dim' : statusColours[status]);

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(3)} s`;

/** Empty for an instant, a question mark for an unknown duration. */
function taken(entry: TimelineEntry): string {
  if (entry.end_ms === null) return '?';
  const ms = durationOf(entry);
  return ms === 0 ? '' : durationText(ms);
}
