import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { cutText } from '../../../../base/text.ts';
import type { Redact } from '../../../../server/secrets/redactor.ts';

interface StderrLimits {
  readonly stderrLineChars: number;
  readonly stderrWindowBytes: number;
  readonly stderrWindowMs: number;
}

/** A line is redacted before it is cut to its limit; this many more characters are buffered to redact a whole secret. */
const REDACTION_MARGIN_CHARS = 16 * 1024;

/** The stderr of one server as log lines, bounded in length and in bytes per window. Always drains the pipe. */
export class StderrLog {
  /** For the error message of a server that died. */
  lastLine = '';
  readonly #limits: StderrLimits;
  readonly #redact: Redact;
  readonly #emit: (line: string) => void;
  readonly #now: () => number;
  readonly #decoder = new StringDecoder('utf8');
  #line = '';
  #windowStart: number;
  #windowBytes = 0;
  #droppedBytes = 0;

  constructor(deps: { limits: StderrLimits; redact: Redact; emit: (line: string) => void; now: () => number }) {
    this.#limits = deps.limits;
    this.#redact = deps.redact;
    this.#emit = deps.emit;
    this.#now = deps.now;
    this.#windowStart = deps.now();
  }

  attach(stream: Readable): void {
    stream.on('data', (chunk: Buffer) => this.#push(this.#decoder.write(chunk)));
    stream.on('error', () => {});
    stream.once('close', () => {
      this.#push(this.#decoder.end());
      if (this.#line !== '') this.#finishLine();
      this.#reportDropped();
    });
  }

  #push(text: string): void {
    const lines = text.split('\n');
    const last = lines.pop() as string;
    for (const line of lines) {
      this.#grow(line);
      this.#finishLine();
    }
    this.#grow(last);
  }

  #grow(text: string): void {
    const room = this.#limits.stderrLineChars + REDACTION_MARGIN_CHARS - this.#line.length;
    if (room > 0) this.#line += text.slice(0, room);
  }

  #finishLine(): void {
    const whole = this.#redact(this.#line.trimEnd());
    this.#line = '';
    if (whole === '') return;
    const line = cutText(whole, this.#limits.stderrLineChars);
    this.lastLine = line;
    this.#openWindow();
    const bytes = Buffer.byteLength(line);
    if (this.#windowBytes + bytes > this.#limits.stderrWindowBytes) {
      this.#droppedBytes += bytes;
      return;
    }
    this.#windowBytes += bytes;
    this.#emit(line);
  }

  #openWindow(): void {
    const now = this.#now();
    if (now - this.#windowStart < this.#limits.stderrWindowMs) return;
    this.#windowStart = now;
    this.#windowBytes = 0;
    this.#reportDropped();
  }

  #reportDropped(): void {
    if (this.#droppedBytes === 0) return;
    this.#emit(`(${this.#droppedBytes} bytes of stderr were dropped)`);
    this.#droppedBytes = 0;
  }
}
