import { isJsonObject, type JsonObject } from '../../base/json.ts';
import type { ReadJournal } from '../../runtime/durable/read-journal.ts';
import { countIn, textIn, textOrNull } from './record-fields.ts';
import { textShower } from './shown-text.ts';
import { TimelineBuilder } from './timeline-builder.ts';
import {
  durationOf,
  type OutputEntry,
  type Timeline,
  type TimelineEntry,
  type TimelineTotals,
} from './timeline-entry.ts';

export interface TimelineOptions {
  /** Texts are not cut. They are masked all the same. @default false */
  readonly full?: boolean;
}

/** What a journal tells, for people. */
export function timelineOf({ header, records, tornBytes }: ReadJournal, options: TimelineOptions = {}): Timeline {
  const show = textShower(options.full ?? false);
  const builder = new TimelineBuilder(show);
  for (const record of records) builder.take(record);
  const { entries, attempts } = builder.finish();
  const end = entries.findLast((entry) => entry.kind === 'end' || entry.kind === 'resumed');
  const { run, started, spear, task, wasm, args, env } = header as unknown as JsonObject;
  const module = isJsonObject(wasm) ? wasm : {};
  return {
    run: textIn(run),
    started: countIn(started),
    spear: textIn(spear),
    task: textOrNull(task),
    module: { path: textOrNull(module.path), sha256: textIn(module.sha256), bytes: countIn(module.bytes) },
    args: Array.isArray(args) ? args.map((argument) => show(textIn(argument))) : [],
    env: isJsonObject(env) ? Object.keys(env) : [],
    attempts,
    ended: end?.kind === 'end' ? { reason: end.reason, exit_code: end.exit_code, message: end.message } : null,
    torn_bytes: tornBytes,
    totals: totalsOf(entries),
    entries,
  };
}

function totalsOf(entries: readonly TimelineEntry[]): TimelineTotals {
  const models = entries.filter((entry) => entry.kind === 'model');
  const tools = entries.filter((entry) => entry.kind === 'tool');
  const approvals = entries.filter((entry) => entry.kind === 'approval');
  const output = entries.filter((entry) => entry.kind === 'output');
  const printed = (fd: OutputEntry['fd']) => sum(output, (entry) => (entry.fd === fd ? entry.bytes : 0));
  return {
    model_turns: models.length,
    prompt_tokens: sum(models, ({ tokens }) => tokens?.prompt ?? 0),
    completion_tokens: sum(models, ({ tokens }) => tokens?.completion ?? 0),
    model_ms: sum(models, durationOf),
    tool_calls: tools.filter(({ attempt, status }) => attempt !== null || status !== 'unknown').length,
    tool_ms: sum(tools, durationOf),
    // A later attempt tells the guest of a call once more.
    unknown: new Set(tools.filter(({ status }) => status === 'unknown').map(({ ordinal }) => ordinal)).size,
    approvals: approvals.length,
    approval_ms: sum(approvals, durationOf),
    stdout_bytes: printed('stdout'),
    stderr_bytes: printed('stderr'),
  };
}

const sum = <Item>(items: readonly Item[], of: (item: Item) => number): number =>
  items.reduce((total, item) => total + of(item), 0);
