import { cutText } from '../../base/cut-text.ts';
import { visible, visibleLines } from '../../base/visible-text.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { FdOutput } from '../../hostcalls/output.ts';
import type { StandardStream } from '../../protocol/guest-spec.ts';
import { knownSecrets } from '../../secrets/redactor.ts';
import { WaitDisplay } from './wait-display.ts';

/*
 * The one way to the terminal. What is said may hold words of servers and models: whatever a terminal would obey or hide
 * is spelled out. And while a question is open nothing else is written: it could be painted over the question.
 */

// Not process.stdout: its first use costs milliseconds, and a reader that went away would be an uncaught error.
const output = new FdOutput({ stdout: 1, stderr: 2 });

const STDERR = 2;
const DEFAULT_COLUMNS = 80;
const ERASED = '\r\u001b[K';
/** Lines that wait for the end of a question; what comes beyond is counted. */
const MAX_HELD_LINES = 1_000;

/** What the run waits for, on stderr. Not while a guest prints: its thread writes by itself, and nobody can tell. */
export const waits = new WaitDisplay({
  say: (text) => say(text),
  get draw() {
    return canRedraw() ? draw : null;
  },
});

let questions = 0;
let heldLines: string[] = [];
let droppedLines = 0;
const heldWrites: (() => void)[] = [];

/** A question has the terminal until what is returned here is called. */
export function holdOutput(): () => void {
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
  for (const line of lines) write('stderr', line);
  if (dropped > 0) write('stderr', `spear-run: ${dropped} more lines were not kept while a question was open\n`);
  for (const resume of heldWrites.splice(0)) resume();
}

/** Bytes of the guest, as they are, but not over a question; `done` when they are written. */
export function writeGuestBytes(stream: StandardStream, bytes: Uint8Array, done: () => void): void {
  if (questions > 0) {
    heldWrites.push(() => writeGuestBytes(stream, bytes, done));
    return;
  }
  waits.erase();
  output.write(stream, bytes);
  done();
}

let redraws: boolean | undefined;

/** Found out when something is waited for: what knows terminals would cost every start some milliseconds. */
function canRedraw(): boolean {
  const { TERM = 'dumb' } = processEnvironment;
  redraws ??= TERM !== 'dumb' && process.getBuiltinModule('node:tty').isatty(STDERR);
  return redraws;
}

/** Never as wide as the terminal: a line that it breaks could not be taken away again. */
function draw(text: string): void {
  const line = text === '' ? '' : `spear-run: ${visible(knownSecrets.redact(text))}`;
  const columns = process.stderr.columns || DEFAULT_COLUMNS;
  output.write('stderr', Buffer.from(`${ERASED}${cutText(line, Math.max(1, columns - 2))}`));
}

/** What was asked for: help, the version, a result. */
export function print(text: string): void {
  waits.erase();
  write('stdout', knownSecrets.redact(text)); // data for programs: it stays as it is
}

/** What the host has to say while it runs a guest. */
export function say(text: string): void {
  sayLines(`spear-run: ${visible(knownSecrets.redact(text))}\n`);
}

export function sayBlock(text: string): void {
  sayLines(`${visibleLines(knownSecrets.redact(text))}\n`);
}

function sayLines(lines: string): void {
  if (questions === 0) {
    waits.erase();
    write('stderr', lines);
  } else if (heldLines.length < MAX_HELD_LINES) heldLines.push(lines);
  else droppedLines += 1;
}

function write(stream: StandardStream, text: string): void {
  output.write(stream, Buffer.from(text));
}
