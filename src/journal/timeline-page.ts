import { hash } from 'node:crypto';
import { visible, visibleLines } from '../base/visible-text.ts';
import type { ShownText } from './shown-text.ts';
import { AXIS_WIDTH, TimelineAxis } from './timeline-axis.ts';
import { durationOf, type Timeline, type TimelineEntry } from './timeline-entry.ts';
import { pageStyle } from './timeline-page-style.ts';
import { cutNote, durationText, type EntryWords, endOf, totalsText, whenText, wordsOf } from './timeline-words.ts';

/*
 * One page that stands alone: no script, no address, and a policy that lets nothing else in. Positions are attributes of
 * SVG, since styles in attributes would need that policy to be weaker.
 */

const POLICY = `default-src 'none'; style-src 'sha256-${hash('sha256', pageStyle, 'base64')}'; base-uri 'none'; form-action 'none'`;
const TICKS = 4;

/** What can be hidden, in the order it is offered. */
const kinds: readonly TimelineEntry['kind'][] = [
  'send',
  'model',
  'tool',
  'approval',
  'wait',
  'input',
  'output',
  'stream',
  'reply',
];

/** The run as a page of HTML. */
export function timelinePage(timeline: Timeline): string {
  const axis = new TimelineAxis(timeline.attempts);
  const present = kinds.filter((kind) => timeline.entries.some((entry) => entry.kind === kind));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${line(timeline.run)}</title>
<style>${pageStyle}</style>
</head>
<body>
${header(timeline)}
<nav aria-label="What is shown">${present.map(filter).join('')}</nav>
<main>
${ticks(axis)}
${timeline.entries.map((entry) => row(entry, axis)).join('\n')}
</main>
</body>
</html>
`;
}

function header(timeline: Timeline): string {
  const { run, task, module, args, env, started, spear, ended } = timeline;
  const facts: readonly (readonly [string, string])[] = [
    ['Module', `${module.path ?? 'unknown'} (${module.bytes} bytes, sha256 ${module.sha256.slice(0, 12)}…)`],
    ['Task', task ?? ''],
    ['Arguments', args.map(({ text }) => JSON.stringify(text)).join(' ')],
    ['Environment', env.join(', ')],
    ['Began', `${whenText(started)}, Spear ${spear}`],
  ];
  const shown = facts
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `<dt>${name}</dt><dd>${line(value)}</dd>`);
  const state = ended === null ? 'unknown' : ended.reason === 'exit' && ended.exit_code === 0 ? 'ok' : 'failed';
  return `<header>
<h1>${line(run)}</h1>
<p class="end ${state}">${line(endOf(timeline))}</p>
<ul class="totals">${totalsText(timeline)
    .map((total) => `<li>${line(total)}</li>`)
    .join('')}</ul>
<dl>${shown.join('')}</dl>
</header>`;
}

const filter = (kind: string) =>
  `<label class="${kind}"><input type="checkbox" id="show-${kind}" checked> <span>${kind}</span></label>`;

function ticks({ total }: TimelineAxis): string {
  const marks = Array.from({ length: TICKS + 1 }, (_, at) => `<span>${durationText((total * at) / TICKS)}</span>`);
  return `<div class="ticks" aria-hidden="true"><div>${marks.join('')}</div></div>`;
}

function row(entry: TimelineEntry, axis: TimelineAxis): string {
  const words = wordsOf(entry);
  const inside = entry.send !== null && entry.kind !== 'send' ? ' inside' : '';
  const names = `row ${entry.kind} ${entry.status}${inside}`;
  const head = `${times(entry)}<span class="kind">${entry.kind}</span>${about(words)}${bar(entry, axis)}`;
  if (words.texts.length === 0) return `<div class="${names}"><div class="head">${head}</div></div>`;
  const open = entry.status === 'ok' ? '' : ' open';
  return `<details class="${names}"${open}><summary class="head">${head}</summary>${words.texts.map(block).join('')}</details>`;
}

function times(entry: TimelineEntry): string {
  const took = entry.end_ms === null ? '?' : durationOf(entry) === 0 ? '' : durationText(durationOf(entry));
  return `<span class="at">${(entry.start_ms / 1_000).toFixed(3)} s</span><span class="took">${took}</span>`;
}

function about({ title, facts, preview }: EntryWords): string {
  const more = facts.map((fact) => `<span class="fact">${line(fact)}</span>`).join('');
  return `<span class="about"><b>${line(title)}</b>${more}<span class="preview">${line(preview)}</span></span>`;
}

function bar(entry: TimelineEntry, axis: TimelineAxis): string {
  const { x, width } = axis.bar(entry);
  return `<svg class="bar" viewBox="0 0 ${AXIS_WIDTH} 10" preserveAspectRatio="none" aria-hidden="true"><rect x="${x}" y="1" width="${width}" height="8"/></svg>`;
}

function block({ label, text }: { readonly label: string; readonly text: ShownText }): string {
  const note = cutNote(text);
  const name = label === '' ? '' : `<figcaption>${line(label)}</figcaption>`;
  const cut = note === '' ? '' : `<p class="cut">${line(note)}</p>`;
  return `<figure>${name}<pre>${lines(text.text)}</pre>${cut}</figure>`;
}

/** Text of others, on one line: nothing in it is markup, and nothing in it is unseen or turns what follows around. */
const line = (text: string): string => escaped(visible(text));
const lines = (text: string): string => escaped(visibleLines(text.replace(/\n+$/, '')));

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => entities[character] as string);
