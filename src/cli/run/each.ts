import { hash } from 'node:crypto';
import { closeSync, createReadStream, existsSync, openSync, readFileSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { errorCode } from '../../base/error-text.ts';
import { isJsonObject, parseJson } from '../../base/json.ts';
import type { OpenTask } from '../../run/run-task.ts';
import type { TaskRunOptions } from '../../run/task-options.ts';
import type { RunResult } from '../../runtime/host/run-result.ts';
import { UsageError } from '../usage-error.ts';
import type { EachFlags } from './flags.ts';
import { say } from './output.ts';

const PRIVATE = 0o600;

/** Result of one input; one line of the file. */
export interface EachResult {
  readonly index: number;
  /** Of the input. */
  readonly sha256: string;
  /** The guest's own; null: it has none. */
  readonly exit: number | null;
  readonly reason: string;
  readonly output?: string;
  /** Instead of `output` where that is no text. */
  readonly output_base64?: string;
  readonly tokens?: number;
  /** Where runs are traced. */
  readonly trace_id?: string;
  /** Of a guest that failed: what went wrong, and the end of its log. */
  readonly message?: string;
  readonly log?: string;
}

/** Result file: a line is written as soon as its guest has ended. */
export class EachResults {
  readonly #fd: number;
  readonly #done = new Set<string>();

  /** @throws UsageError */
  constructor(file: string, appends: boolean) {
    const before = existsSync(file) ? readFileSync(file, 'utf8') : '';
    if (before !== '' && !appends) {
      throw new UsageError(`--results ${file}: already exists; add --skip-done to continue it, or name another file`);
    }
    for (const line of before.split('\n')) this.#note(line);
    try {
      this.#fd = openSync(file, 'a', PRIVATE);
    } catch (error) {
      throw new UsageError(`--results ${file}: cannot be written (${errorCode(error)})`);
    }
    // Terminate the incomplete line of a killed process.
    if (before !== '' && !before.endsWith('\n')) writeSync(this.#fd, '\n');
  }

  /** Whether there is a good result of this input. */
  has(index: number, sha256: string): boolean {
    return this.#done.has(`${index} ${sha256}`);
  }

  add(result: EachResult): void {
    writeSync(this.#fd, `${JSON.stringify(result)}\n`);
  }

  close(): void {
    closeSync(this.#fd);
  }

  #note(line: string): void {
    const value = parseJson(line);
    if (isJsonObject(value ?? null)) {
      const { index, sha256, exit } = value as Partial<EachResult>;
      if (exit === 0) this.#done.add(`${index} ${sha256}`);
    }
  }
}

const EVERY_MS = 200;
const BAR_CHARS = 24;
const ERASE_LINE = '\r\x1b[K';

/** Progress line of a batch, on a terminal only. */
export class EachProgress {
  readonly #total: number;
  readonly #startedAt = performance.now();
  readonly #isShown = process.stderr.isTTY === true;
  #shownAt = Number.NEGATIVE_INFINITY;
  done = 0;
  failed = 0;
  skipped = 0;
  tokens = 0;

  constructor(total: number) {
    this.#total = total;
  }

  show(): void {
    const now = performance.now();
    if (!this.#isShown || now - this.#shownAt < EVERY_MS) return;
    this.#shownAt = now;
    process.stderr.write(ERASE_LINE + this.#line());
  }

  /** Erases the line and returns the summary. */
  end(): string {
    if (this.#isShown) process.stderr.write(ERASE_LINE);
    const skipped = this.skipped > 0 ? `, ${this.skipped} skipped` : '';
    return `${this.done} of ${this.#total} done, ${this.failed} failed${skipped}, ${this.tokens} tokens, ${this.#rate().toFixed(1)} per second`;
  }

  #rate(): number {
    return this.done / Math.max(0.001, (performance.now() - this.#startedAt) / 1000);
  }

  #line(): string {
    const over = this.done + this.skipped;
    const filled = this.#total === 0 ? BAR_CHARS : Math.floor((over / this.#total) * BAR_CHARS);
    const bar = '#'.repeat(filled).padEnd(BAR_CHARS, '.');
    const rate = this.#rate();
    const left = rate > 0 ? `${Math.ceil((this.#total - over) / rate)} s left` : '';
    return `[${bar}] ${over}/${this.#total}, ${this.failed} failed, ${this.tokens} tokens, ${rate.toFixed(1)}/s ${left}`;
  }
}

/** Characters of the guest's log in the result of a failed guest. */
const LOG_CHARS = 4_096;
const MAX_OUTPUT_BYTES = 32 * 1024 * 1024;
const FAILED = 1;

/** One guest for each line, some at a time. The exit code: 0 if all of them ended with 0. */
export async function runEach(
  task: OpenTask,
  flags: EachFlags,
  options: TaskRunOptions,
  signal: AbortSignal,
): Promise<number> {
  if (!existsSync(flags.inputs)) throw new UsageError(`--each ${flags.inputs}: no such file`);
  const results = new EachResults(flags.results, flags.skipDone);
  const progress = new EachProgress(await countLines(flags.inputs));
  const running = new Set<Promise<void>>();
  try {
    for await (const { index, line } of inputsOf(flags.inputs)) {
      if (signal.aborted) break;
      const sha256 = hash('sha256', line);
      if (results.has(index, sha256)) {
        progress.skipped += 1;
        continue;
      }
      const one = runOne(task, { ...options, signal }, line).then(({ result, output, log }) => {
        // An interrupted guest has no result, so that --skip-done runs it again.
        if (result.reason === 'interrupted') return;
        const made = resultOf(index, sha256, result, output, log);
        results.add(made);
        progress.done += 1;
        progress.tokens += made.tokens ?? 0;
        if (made.exit !== 0) progress.failed += 1;
        progress.show();
      });
      const seen: Promise<void> = one.finally(() => running.delete(seen));
      running.add(seen);
      if (running.size >= flags.parallel) await Promise.race(running);
    }
    await Promise.all(running);
  } finally {
    await Promise.allSettled(running);
    results.close();
    say(progress.end());
  }
  return progress.failed === 0 ? 0 : FAILED;
}

async function runOne(task: OpenTask, options: TaskRunOptions, line: string) {
  const output: Uint8Array[] = [];
  let bytes = 0;
  let log = '';
  const decoder = new TextDecoder();
  const result = await task.run({
    ...options,
    stdin: () => Readable.from([Buffer.from(`${line}\n`)]),
    output: (stream, chunk) => {
      if (stream === 'stderr') {
        log = (log + decoder.decode(chunk, { stream: true })).slice(-LOG_CHARS);
        return;
      }
      bytes += chunk.byteLength;
      if (bytes <= MAX_OUTPUT_BYTES) output.push(new Uint8Array(chunk));
    },
  });
  if (bytes <= MAX_OUTPUT_BYTES) return { result, output: Buffer.concat(output), log };
  const message = `the output exceeds ${MAX_OUTPUT_BYTES} bytes`;
  return {
    result: { ...result, reason: 'internal', exitCode: null, message } as RunResult,
    output: Buffer.alloc(0),
    log,
  };
}

function resultOf(index: number, sha256: string, result: RunResult, output: Buffer, log: string): EachResult {
  const { reason, exitCode: exit, message, chat } = result;
  const tokens = chat.usage.total_tokens;
  return {
    ...{ index, sha256, exit, reason },
    ...shown(output),
    ...(typeof tokens === 'number' ? { tokens } : {}),
    ...(message === null ? {} : { message }),
    ...(result.traceId === null ? {} : { trace_id: result.traceId }),
    ...(exit === 0 || log === '' ? {} : { log }),
  };
}

function shown(output: Buffer): Pick<EachResult, 'output' | 'output_base64'> {
  try {
    return { output: new TextDecoder('utf-8', { fatal: true }).decode(output) };
  } catch {
    return { output_base64: output.toString('base64') };
  }
}

/** Non-empty lines with their index in the file. */
async function* inputsOf(file: string): AsyncGenerator<{ readonly index: number; readonly line: string }> {
  let index = 0;
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY })) {
    if (line.trim() !== '') yield { index, line };
    index += 1;
  }
}

async function countLines(file: string): Promise<number> {
  let count = 0;
  for await (const _ of inputsOf(file)) count += 1;
  return count;
}
