import { z } from 'zod';

const text = z.string();
const status = z.enum(['ok', 'failed', 'denied', 'unknown', 'open']);

const row = z.object({
  kind: text,
  status,
  /** Whether it belongs to the send above it. */
  inside: z.boolean(),
  at: text,
  took: text,
  title: text,
  facts: z.array(text),
  /** The gist of the texts. */
  preview: text,
  /** `cut`: what is missing of the text, in words. */
  texts: z.array(z.object({ label: text, text, cut: text })),
  /** Where its bar lies. */
  x: z.number(),
  width: z.number(),
});

/** What a run did, as a waterfall: the same on a page of its own and in the console. Nothing in it is escaped. */
export const runPicture = z.object({
  run: text,
  end: text,
  state: z.enum(['ok', 'failed', 'unknown']),
  totals: z.array(text),
  facts: z.array(z.object({ name: text, value: text })),
  /** Of the axis, evenly spaced. */
  ticks: z.array(text),
  /** Of the axis, in the units of `x` and `width`. */
  axis: z.number(),
  rows: z.array(row),
  /** Rows that had no room. */
  left_out: z.number(),
});

export type RunPicture = z.infer<typeof runPicture>;
export type RunPictureRow = z.infer<typeof row>;
