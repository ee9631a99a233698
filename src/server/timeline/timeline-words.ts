import { cutText } from '../../base/text.ts';
import type { ShownText } from './shown-text.ts';
import type {
  ApprovalEntry,
  ErrorShown,
  ModelEntry,
  Timeline,
  TimelineEntry,
  ToolEntry,
  WaitEntry,
} from './timeline-entry.ts';

/** An entry in words: the same on a terminal and on a page. Nothing in it is escaped yet. */
export interface EntryWords {
  /** What happened, in a line. */
  readonly title: string;
  /** What else there is to say about it, in a few words each. */
  readonly facts: readonly string[];
  readonly texts: readonly { readonly label: string; readonly text: ShownText }[];
  /** The gist of the texts, for where they do not fit. */
  readonly preview: string;
}

type Said = Omit<EntryWords, 'preview'>;

/** Names come from guests, models and servers too. */
const MAX_NAME_CHARS = 200;

export function wordsOf(entry: TimelineEntry): EntryWords {
  const said = saidOf(entry);
  return { ...said, preview: previewOf(entry, said) };
}

function previewOf(entry: TimelineEntry, { texts }: Said): string {
  const isWish = entry.kind === 'model' && entry.calls.length > 0;
  const gist = isWish ? `calls ${entry.calls.map((call) => call.name).join(', ')}` : (texts.at(-1)?.text.text ?? '');
  return cutText(gist.trimStart().split('\n', 1)[0] ?? '', MAX_NAME_CHARS);
}

function saidOf(entry: TimelineEntry): Said {
  switch (entry.kind) {
    case 'send':
      return { title: `send ${entry.send}`, facts: [noEnd(entry), errorText(entry.error)].filter(isSaid), texts: [] };
    case 'model':
      return modelWords(entry);
    case 'tool':
      return toolWords(entry);
    case 'approval':
      return approvalWords(entry);
    case 'output':
      return { title: entry.fd, facts: [bytesText(entry.bytes)], texts: [{ label: '', text: entry.text }] };
    case 'input':
      return { title: 'stdin', facts: [bytesText(entry.bytes)], texts: [{ label: '', text: entry.text }] };
    case 'wait':
      return { title: waitText(entry), facts: [], texts: [] };
    case 'stream': {
      const frames = `${entry.frames} ${entry.frames === 1 ? 'frame' : 'frames'} from the client`;
      const isFrames = entry.what === 'frames';
      return {
        title: isFrames ? frames : streamWords[entry.what],
        facts: isFrames ? [bytesText(entry.bytes)] : [],
        texts: [],
      };
    }
    case 'reply': {
      const texts = entry.body === null ? [] : [{ label: '', text: entry.body }];
      return { title: `reply to guest call ${entry.call}`, facts: [entry.errno ?? ''].filter(isSaid), texts };
    }
    case 'resumed':
      return { title: `resumed, attempt ${entry.attempt}`, facts: [`Spear ${name(entry.spear)}`], texts: [] };
    case 'end':
      return { title: endText(entry), facts: [entry.message ?? ''].filter(isSaid), texts: [] };
  }
}

/** How the run came to its end, or that the journal does not say. */
export function endOf({ ended, torn_bytes: torn, attempts }: Timeline): string {
  const cut = torn === 0 ? '' : `; the last ${torn} bytes are an incomplete write (crash) and are ignored`;
  const times = attempts.length === 1 ? '' : `, in ${attempts.length} attempts`;
  if (ended !== null) return `ended: ${endText(ended)}${times}${cut}`;
  return `not ended: the run was killed or is still running${times}${cut}`;
}

/** What the run came to, in a few words each. */
export function totalsText({ totals, attempts }: Timeline): string[] {
  const { model_turns: turns, tool_calls: calls, unknown, approvals } = totals;
  const tokens = totals.prompt_tokens + totals.completion_tokens;
  return [
    durationText(attempts.reduce((sum, { start_ms, end_ms }) => sum + end_ms - start_ms, 0)),
    turns === 0 ? '' : `${plural(turns, 'model turn')} in ${durationText(totals.model_ms)}`,
    tokens === 0 ? '' : `${tokensText({ prompt: totals.prompt_tokens, completion: totals.completion_tokens })}`,
    calls === 0 ? '' : `${plural(calls, 'tool call')} in ${durationText(totals.tool_ms)}`,
    unknown === 0 ? '' : `${unknown} with unknown outcome`,
    approvals === 0 ? '' : `${plural(approvals, 'approval')} in ${durationText(totals.approval_ms)}`,
  ].filter(isSaid);
}

/** `12 ms`, `3.4 s`, `2 min 5 s`. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** A time that is no time is said to be none. */
export function whenText(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime())
    ? 'at an unknown time'
    : date.toISOString().replace('T', ' ').replace('Z', ' UTC');
}

export const cutNote = ({ cut_from }: ShownText): string =>
  cut_from === null ? '' : `truncated, ${cut_from} characters in all`;

function modelWords(entry: ModelEntry): Said {
  const { backend, model, turn, tokens, first_ms: first, asked, text, calls, error, start_ms: start } = entry;
  return {
    title: `${name(backend)}${model === null ? '' : ` ${name(model)}`}, turn ${turn}`,
    facts: [
      tokens === null ? '' : tokensText(tokens),
      first === null ? '' : `first token after ${durationText(first - start)}`,
      entry.status === 'open' ? 'no answer' : '',
      errorText(error),
    ].filter(isSaid),
    texts: [
      ...(asked?.text ? [{ label: name(asked.role), text: asked.text }] : []),
      ...(text === null ? [] : [{ label: 'says', text }]),
      ...calls.map((call) => ({ label: `calls ${name(call.name)}`, text: call.args })),
    ],
  };
}

function toolWords({ source, server, tool, args, result, status, code, attempt }: ToolEntry): Said {
  const called = name(tool ?? 'a tool');
  const unknown = status === 'unknown' ? 'outcome unknown: the call was sent, and no result was recorded' : '';
  return {
    title: source === 'mcp' ? [server, called].filter(isSaid).map(name).join(' ') : called,
    facts: [
      source === 'native' ? 'guest tool' : source === 'host' ? 'answered by the host' : '',
      unknown,
      status === 'open' ? 'not ended' : '',
      code === null || unknown !== '' ? '' : name(code),
      attempt === null || attempt === 1 ? '' : `attempt ${attempt}`,
    ].filter(isSaid),
    texts: [
      ...(args === null ? [] : [{ label: 'arguments', text: args }]),
      ...(result === null ? [] : [{ label: 'result', text: result }]),
    ],
  };
}

function approvalWords({ server, tool, args, cause, decision, decided_by: by, reason }: ApprovalEntry): Said {
  const what = [server, tool].filter(isSaid).map(name).join(' ');
  const decided = decision === null ? 'no decision' : `${name(decision)} by ${name(by ?? 'unknown')}`;
  return {
    title: `${what}: ${decided}`,
    facts: [cause ?? '', reason ?? ''].filter(isSaid).map((fact) => cutText(fact, MAX_NAME_CHARS)),
    texts: args === null ? [] : [{ label: 'arguments', text: args }],
  };
}

const streamWords = {
  end: 'the client sent its last frame',
  gone: 'the client disconnected',
  event: 'stream event',
} as const;

function waitText({ timers }: WaitEntry): string {
  return timers === 1 ? 'a sleep or a timeout' : `${timers} sleeps or timeouts`;
}

function endText({ reason, exit_code: code }: { readonly reason: string; readonly exit_code: number | null }): string {
  return `${name(reason)}${code === null ? '' : ` ${code}`}`;
}

function errorText(error: ErrorShown | null): string {
  return error === null ? '' : [error.code, error.message].filter(isSaid).map(name).join(': ');
}

const noEnd = ({ status }: TimelineEntry) => (status === 'open' ? 'not ended' : '');
const tokensText = ({ prompt, completion }: { readonly prompt: number; readonly completion: number }) =>
  `${prompt} tokens in, ${completion} out`;
const bytesText = (bytes: number) => plural(bytes, 'byte');
const plural = (number: number, what: string) => `${number} ${what}${number === 1 ? '' : 's'}`;
const name = (text: string) => cutText(text, MAX_NAME_CHARS);
const isSaid = (text: string | null): text is string => text !== null && text !== '';
