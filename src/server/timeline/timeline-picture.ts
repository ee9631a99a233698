import type { RunPicture, RunPictureRow } from './run-picture.ts';
import { AXIS_WIDTH, TimelineAxis } from './timeline-axis.ts';
import { durationOf, type Timeline, type TimelineEntry } from './timeline-entry.ts';
import { cutNote, durationText, endOf, totalsText, whenText, wordsOf } from './timeline-words.ts';

const TICKS = 4;
const SHA256_CHARS = 12;

/** The run as a waterfall. */
export function timelinePicture(timeline: Timeline): RunPicture {
  const { run, task, module, args, env, started, spear, ended } = timeline;
  const axis = new TimelineAxis(timeline.attempts);
  const facts = [
    {
      name: 'Module',
      value: `${module.path ?? 'unknown'} (${module.bytes} bytes, sha256 ${module.sha256.slice(0, SHA256_CHARS)}…)`,
    },
    { name: 'Task', value: task ?? '' },
    { name: 'Arguments', value: args.map(({ text }) => JSON.stringify(text)).join(' ') },
    { name: 'Environment', value: env.join(', ') },
    { name: 'Started', value: `${whenText(started)}, Spear ${spear}` },
  ];
  return {
    run,
    end: endOf(timeline),
    state: ended === null ? 'unknown' : ended.reason === 'exit' && ended.exit_code === 0 ? 'ok' : 'failed',
    totals: [...totalsText(timeline)],
    facts: facts.filter(({ value }) => value !== ''),
    ticks: Array.from({ length: TICKS + 1 }, (_, at) => durationText((axis.total * at) / TICKS)),
    axis: AXIS_WIDTH,
    rows: timeline.entries.map((entry) => row(entry, axis)),
    left_out: 0,
  };
}

function row(entry: TimelineEntry, axis: TimelineAxis): RunPictureRow {
  const { title, facts, preview, texts } = wordsOf(entry);
  return {
    kind: entry.kind,
    status: entry.status,
    inside: entry.send !== null && entry.kind !== 'send',
    at: `${(entry.start_ms / 1_000).toFixed(3)} s`,
    took: entry.end_ms === null ? '?' : durationOf(entry) === 0 ? '' : durationText(durationOf(entry)),
    title,
    facts: [...facts],
    preview,
    texts: texts.map(({ label, text }) => ({ label, text: text.text, cut: cutNote(text) })),
    ...axis.bar(entry),
  };
}

/** As much of it as fits, with a word about the rest; texts go before rows. */
export function boundedPicture(picture: RunPicture, maxBytes: number): RunPicture {
  const fits = (candidate: RunPicture) => Buffer.byteLength(JSON.stringify(candidate)) <= maxBytes;
  if (fits(picture)) return picture;
  const bare = { ...picture, rows: picture.rows.map((one) => ({ ...one, texts: [] })) };
  if (fits(bare)) return bare;
  const kept = Math.floor((bare.rows.length * maxBytes) / (2 * Buffer.byteLength(JSON.stringify(bare))));
  return { ...bare, rows: bare.rows.slice(0, kept), left_out: bare.rows.length - kept };
}
