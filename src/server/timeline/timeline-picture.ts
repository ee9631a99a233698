import type { RunPicture, RunPictureRow } from './run-picture.ts';
import { type Attempt, durationOf, type Timeline, type TimelineEntry } from './timeline-entry.ts';
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

/** How wide a waterfall is, in units of its own. */
export const AXIS_WIDTH = 1_000;
/** Between two attempts nothing happened, perhaps for days: that time gets so much room. */
const GAP_WIDTH = 16;
/** What takes no time is seen all the same. */
const MIN_WIDTH = 3;

/** Where on a waterfall something lies. */
export interface Bar {
  readonly x: number;
  readonly width: number;
}

/** The time that the attempts of a run took, one after the other. */
export class TimelineAxis {
  readonly #attempts: readonly Attempt[];
  readonly #scale: number;
  /** In milliseconds, without what lies between the attempts. */
  readonly total: number;

  constructor(attempts: readonly Attempt[]) {
    this.#attempts = attempts;
    this.total = attempts.reduce((sum, { start_ms, end_ms }) => sum + end_ms - start_ms, 0);
    const gaps = Math.min((attempts.length - 1) * GAP_WIDTH, AXIS_WIDTH / 2);
    this.#scale = (AXIS_WIDTH - gaps) / Math.max(this.total, 1);
  }

  /** Something whose end is not known lasts as long as its attempt. */
  bar({ start_ms, end_ms }: Pick<TimelineEntry, 'start_ms' | 'end_ms'>): Bar {
    const end = end_ms ?? this.#attempts.find((attempt) => attempt.end_ms >= start_ms)?.end_ms ?? start_ms;
    const width = Math.max(this.#place(end) - this.#place(start_ms), MIN_WIDTH);
    return { x: rounded(Math.min(this.#place(start_ms), AXIS_WIDTH - width)), width: rounded(width) };
  }

  #place(ms: number): number {
    let x = 0;
    for (const { start_ms, end_ms } of this.#attempts) {
      if (ms <= end_ms) return x + Math.max(ms - start_ms, 0) * this.#scale;
      x += (end_ms - start_ms) * this.#scale + Math.min(GAP_WIDTH, AXIS_WIDTH / 2 / this.#attempts.length);
    }
    return AXIS_WIDTH;
  }
}

const rounded = (number: number) => Math.round(number * 10) / 10;
