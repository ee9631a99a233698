import { cutText, visible, visibleLines } from '../../base/text.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { FdOutput } from '../../runtime/guest/hostcalls/output.ts';
import type { StandardStream } from '../../runtime/port/guest-spec.ts';
import { knownSecrets } from '../../server/secrets/redactor.ts';
import { WaitDisplay } from './wait-display.ts';

/*
 * All terminal output of spear-run. Messages may contain text of servers and models, so control characters are escaped.
 * While a prompt is open other output is held, because it could be drawn over the prompt.
 */

// Not process.stdout: its first use costs milliseconds, and a closed pipe would be an uncaught error.
const output = new FdOutput({ stdout: 1, stderr: 2 });

const STDERR = 2;
const DEFAULT_COLUMNS = 80;
const ERASED = '\r\u001b[K';
/** Held lines; further ones are counted and dropped. */
const MAX_HELD_LINES = 1_000;
/** Characters of one held line. */
const MAX_HELD_LINE = 16_384;

/** Wait messages on stderr. */
export const waits = new WaitDisplay({
  say: (text) => say(text),
  get draw() {
    return canRedraw() ? draw : null;
  },
});

/** Text for stderr; with a start it is an unfinished line. */
interface Said {
  readonly start: string | null;
  readonly text: string;
}

let questions = 0;
let heldLines: Said[] = [];
let droppedLines = 0;
const heldWrites: (() => void)[] = [];
/** The last line on stderr, while it has no end. */
let unfinished: { readonly start: string; readonly showWaits: () => void } | null = null;

/** Holds output for a prompt; call the result to release it. */
export function holdOutput(): () => void {
  endLine();
  const showWaits = waits.hold();
  questions += 1;
  return () => {
    questions -= 1;
    if (questions === 0) release();
    showWaits();
  };
}

function release(): void {
  const [lines, dropped] = [heldLines, droppedLines];
  heldLines = [];
  droppedLines = 0;
  for (const line of lines) writeLine(line);
  if (dropped > 0) say(`${dropped} more lines were dropped while a prompt was open`);
  for (const resume of heldWrites.splice(0)) resume();
}

/** Raw guest output, held while a prompt is open; calls `done` when written. */
export function writeGuestBytes(stream: StandardStream, bytes: Uint8Array, done: () => void): void {
  if (questions > 0) {
    heldWrites.push(() => writeGuestBytes(stream, bytes, done));
    return;
  }
  waits.erase();
  endLine();
  output.write(stream, bytes);
  done();
}

let redraws: boolean | undefined;

/** Evaluated on first use: loading node:tty costs milliseconds at start. */
function canRedraw(): boolean {
  const { TERM = 'dumb' } = processEnvironment;
  redraws ??= TERM !== 'dumb' && process.getBuiltinModule('node:tty').isatty(STDERR);
  return redraws;
}

/** Narrower than the terminal: a wrapped line could not be erased. */
function draw(text: string): void {
  const line = text === '' ? '' : `spear-run: ${visible(knownSecrets.redact(text))}`;
  const columns = process.stderr.columns || DEFAULT_COLUMNS;
  output.write('stderr', Buffer.from(`${ERASED}${cutText(line, Math.max(1, columns - 2))}`));
}

/** Help, version or result on stdout. */
export function print(text: string): void {
  waits.erase();
  write('stdout', knownSecrets.redact(text)); // data for programs: not escaped
}

/** Message of the host on stderr. */
export function say(text: string): void {
  sayLines(`spear-run: ${visible(knownSecrets.redact(text))}\n`);
}

export function sayBlock(text: string): void {
  sayLines(`${visibleLines(knownSecrets.redact(text))}\n`);
}

/** Continues the unfinished line with this start, or starts it. Other output ends it. `text` has no line breaks. */
export function sayOn(start: string, text: string): void {
  const clean = visible(knownSecrets.redact(text));
  if (questions > 0) holdOn(start, clean);
  else if (unfinished?.start === start) write('stderr', clean);
  else writeLine({ start, text: `${start}${clean}` });
}

/** Ends the line that {@link sayOn} wrote, if it is still the last. */
export function endLine(): void {
  const held = heldLines.at(-1);
  if (questions > 0) {
    if (held?.start) heldLines[heldLines.length - 1] = { start: null, text: `${held.text}\n` };
  } else if (unfinished !== null) {
    write('stderr', '\n');
    const { showWaits } = unfinished;
    unfinished = null;
    showWaits();
  }
}

function sayLines(text: string): void {
  endLine();
  if (questions > 0) holdLine({ start: null, text });
  else writeLine({ start: null, text });
}

function writeLine({ start, text }: Said): void {
  waits.erase();
  endLine();
  write('stderr', text);
  // The line of a wait would be drawn over it.
  if (start !== null) unfinished = { start, showWaits: waits.hold() };
}

function holdLine(line: Said): void {
  if (heldLines.length < MAX_HELD_LINES) heldLines.push(line);
  else droppedLines += 1;
}

function holdOn(start: string, text: string): void {
  const last = heldLines.at(-1);
  if (last?.start !== start) {
    endLine();
    holdLine({ start, text: `${start}${text}` });
  } else if (last.text.length < MAX_HELD_LINE) heldLines[heldLines.length - 1] = { start, text: last.text + text };
}

function write(stream: StandardStream, text: string): void {
  output.write(stream, Buffer.from(text));
}
