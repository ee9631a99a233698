import { hash } from 'node:crypto';
import { visible, visibleLines } from '../../base/visible-text.ts';
import type { RunPicture, RunPictureRow } from './run-picture.ts';
import type { Timeline } from './timeline-entry.ts';
import { pageStyle } from './timeline-page-style.ts';
import { timelinePicture } from './timeline-picture.ts';

/*
 * One page that stands alone: no script, no address, and a policy that lets nothing else in. Positions are attributes of
 * SVG, since styles in attributes would need that policy to be weaker.
 */

const POLICY = `default-src 'none'; style-src 'sha256-${hash('sha256', pageStyle, 'base64')}'; base-uri 'none'; form-action 'none'`;
/** What can be hidden, in the order it is offered. */
const kinds: readonly string[] = ['send', 'model', 'tool', 'approval', 'wait', 'input', 'output', 'stream', 'reply'];

/** The run as a page of HTML. */
export function timelinePage(timeline: Timeline): string {
  const picture = timelinePicture(timeline);
  const present = kinds.filter((kind) => picture.rows.some((row) => row.kind === kind));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${line(picture.run)}</title>
<style>${pageStyle}</style>
</head>
<body>
${header(picture)}
<nav aria-label="Filter by kind">${present.map(filter).join('')}</nav>
<main>
${ticks(picture)}
${picture.rows.map((one) => row(one, picture.axis)).join('\n')}
</main>
</body>
</html>
`;
}

function header({ run, end, state, totals, facts }: RunPicture): string {
  return `<header>
<h1>${line(run)}</h1>
<p class="end ${state}">${line(end)}</p>
<ul class="totals">${totals.map((total) => `<li>${line(total)}</li>`).join('')}</ul>
<dl>${facts.map(({ name, value }) => `<dt>${name}</dt><dd>${line(value)}</dd>`).join('')}</dl>
</header>`;
}

const filter = (kind: string) =>
  `<label class="${kind}"><input type="checkbox" id="show-${kind}" checked> <span>${kind}</span></label>`;

function ticks({ ticks: marks }: RunPicture): string {
  return `<div class="ticks" aria-hidden="true"><div>${marks.map((mark) => `<span>${mark}</span>`).join('')}</div></div>`;
}

function row(one: RunPictureRow, axis: number): string {
  const names = `row ${one.kind} ${one.status}${one.inside ? ' inside' : ''}`;
  const times = `<span class="at">${one.at}</span><span class="took">${one.took}</span>`;
  const head = `${times}<span class="kind">${one.kind}</span>${about(one)}${bar(one, axis)}`;
  if (one.texts.length === 0) return `<div class="${names}"><div class="head">${head}</div></div>`;
  const open = one.status === 'ok' ? '' : ' open';
  return `<details class="${names}"${open}><summary class="head">${head}</summary>${one.texts.map(block).join('')}</details>`;
}

function about({ title, facts, preview }: RunPictureRow): string {
  const more = facts.map((fact) => `<span class="fact">${line(fact)}</span>`).join('');
  return `<span class="about"><b>${line(title)}</b>${more}<span class="preview">${line(preview)}</span></span>`;
}

function bar({ x, width }: RunPictureRow, axis: number): string {
  return `<svg class="bar" viewBox="0 0 ${axis} 10" preserveAspectRatio="none" aria-hidden="true"><rect x="${x}" y="1" width="${width}" height="8"/></svg>`;
}

function block({ label, text, cut }: RunPictureRow['texts'][number]): string {
  const name = label === '' ? '' : `<figcaption>${line(label)}</figcaption>`;
  const note = cut === '' ? '' : `<p class="cut">${line(cut)}</p>`;
  return `<figure>${name}<pre>${lines(text)}</pre>${note}</figure>`;
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
