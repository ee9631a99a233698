import { createHash, randomBytes } from 'node:crypto';
import { closeSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { getSystemErrorName } from 'node:util';
import { Worker } from 'node:worker_threads';
import { version as packageVersion } from '../../base/version.ts';
import { type ArgumentForm, type AuditFailureMode, auditLimitSpecs } from '../../config/audit.ts';
import { knownSecrets } from '../secrets/redactor.ts';
import { Secret } from '../secrets/secret.ts';
import { argumentsShown, keepArguments } from './arguments.ts';
import { auditKey } from './chain.ts';
import type { AuditEvent, AuditSink, CallFinished, CallStarted } from './event.ts';
import { openAuditPath } from './file.ts';
import { Folding } from './fold.ts';
import { type Happened, KeptEvents, textsOf } from './kept-events.ts';
import { auditJson } from './line-json.ts';
import {
  type AuditBatch,
  type AuditNews,
  type AuditThreadData,
  type BatchOutcome,
  FAILED,
  PROGRESS_BYTES,
  progressAt,
} from './port.ts';
import type { AuditWriterOptions } from './writer.ts';

/** Events that wait for the disk, in characters. One that finds no place is dropped and counted. */
export const MAX_QUEUED_CHARS = 32 * 1024 * 1024;
/** Events of this long get their lines together, and the thread is woken once for all of them. */
export const GATHER_MS = 25;
/** When there are so many, they do as soon as the host thread has nothing else to do: no batch holds it up for long. */
const GATHER_EVENTS = 256;
/** So many are never without their lines, however busy the host thread is. */
export const MAX_GATHERED_EVENTS = 1_024;
/** How often a closing log looks whether its thread still makes progress. */
const DRAIN_CHECK_MS = 250;

export interface AuditLogOptions {
  /** null: standard output. */
  readonly path: string | null;
  /** What is kept of a call's arguments. @default redacted */
  readonly args?: ArgumentForm;
  /** A file that would grow beyond this is moved aside; 0: never. @default see auditLimitSpecs */
  readonly maxBytes?: number;
  /** How many files that were moved aside are kept. @default see auditLimitSpecs */
  readonly keep?: number;
  /** The version of the program, for the first line of the chain. @default that of this package */
  readonly version?: string;
  /** `refuse`: calls whose lines cannot be written are not made. @default continue */
  readonly failureMode?: AuditFailureMode;
  /** Signs the lines: a text of 16 characters or more that nobody else knows. @default none: they are hashed */
  readonly key?: string | null;
  /** Told once, with the code of the system, when lines are lost. @default nobody */
  readonly onFailure?: (code: string) => void;
}

/** The trail of this process. */
export interface AuditLog {
  /** The trail for guests of one task. */
  forTask(task: string | null): AuditSink;
  /** The trail of what this process does as a service: no guest, no task. */
  forService(): ServiceTrail;
  /** Blocks until everything is written or the writer thread stalls ({@link DrainDeadline}); for the exit of a process. */
  flushNow(): void;
  /** Writes what is left and the end of the chain. */
  close(): Promise<void>;
}

export interface ServiceTrail extends Pick<AuditSink, 'written'> {
  write(event: AuditEvent): void;
}

/** Next to this file: TypeScript in a checkout, JavaScript in the package. */
const threadUrl = new URL(import.meta.url.endsWith('.ts') ? './thread.ts' : './audit-thread.cjs', import.meta.url);

/**
 * Opens a trail. A thread of its own hashes and writes, so that no disk, however slow, holds up a guest. Lines are made
 * here, in batches, and not on that thread: it would need every secret of the process, each before the first line that
 * may hold it, and would be posted arguments with nothing taken out. Making the two lines of a call costs a few
 * microseconds in a batch; posting what they are made from would save little of that.
 * @throws the error of the system, if the file cannot be opened
 */
export function openAuditLog(options: AuditLogOptions): AuditLog {
  if (options.path !== null) closeSync(openAuditPath(options.path).number);
  return new ThreadedLog(options);
}

class ThreadedLog implements AuditLog {
  readonly #worker: Worker;
  readonly #progress = new Int32Array(new SharedArrayBuffer(PROGRESS_BYTES));
  readonly #onFailure: (code: string) => void;
  readonly #showArguments: NonNullable<AuditSink['showArguments']>;
  readonly #atExit = () => this.flushNow();
  readonly #folding = new Folding((task, instance, event) => {
    this.#makeTexts();
    this.#push(auditJson(task, instance, event));
    this.#gather();
  });
  readonly #kept = new KeptEvents();
  /** What is forgotten could stand in an event that is kept. */
  readonly #stopListening = knownSecrets.beforeEviction(() => this.#makeTexts());
  /** null: nobody waits for the disk. */
  readonly #awaited: AwaitedBatches | null;
  /** JSON texts; what is kept came after them. */
  #events: string[] = [];
  #dropped = 0;
  #flush: NodeJS.Timeout | null = null;
  #hurried: NodeJS.Immediate | null = null;
  /** Sizes of the batches that the thread has, oldest first. */
  readonly #posted: number[] = [];
  #settled = 0;
  #queuedChars = 0;
  #reported = false;
  #hasEnded = false;
  #closing: Promise<void> | null = null;
  readonly #exited: Promise<void>;

  constructor(options: AuditLogOptions) {
    const { path, args = 'redacted', maxBytes, keep, version = packageVersion, onFailure = () => {} } = options;
    this.#onFailure = onFailure;
    this.#awaited = options.failureMode === 'refuse' ? new AwaitedBatches() : null;
    this.#showArguments = argumentsShown(args, (text) => createHash('sha256').update(text).digest('hex'));
    const data: AuditThreadData = {
      path,
      maxBytes: maxBytes ?? auditLimitSpecs.max_bytes.default,
      keep: keep ?? auditLimitSpecs.keep.default,
      chain: randomBytes(8).toString('hex'),
      startedAt: new Date(),
      origin: originOf(version),
      key: options.key ? auditKey(new Secret(options.key).reveal()) : null,
      progress: this.#progress.buffer as SharedArrayBuffer,
    };
    this.#worker = new Worker(threadUrl, { workerData: data, env: {}, execArgv: [], name: 'spear-audit' });
    this.#worker.unref();
    this.#worker.on('message', (news: AuditNews) => {
      if (news === FAILED) this.#report();
      else this.#awaited?.settle(news);
    });
    this.#worker.on('error', () => this.#fail('EIO'));
    this.#exited = new Promise((resolve) => {
      this.#worker.once('exit', () => {
        this.#hasEnded = true;
        this.#settle();
        if (this.#posted.length > 0) this.#fail('EIO');
        this.#posted.length = 0;
        this.#awaited?.failAll();
        resolve();
      });
    });
    process.once('exit', this.#atExit);
    this.#post(false); // the chain begins now, not with the first event
  }

  forTask(task: string | null): AuditSink {
    return Object.freeze({
      write: (instance: string, event: AuditEvent) => this.#write(task, instance, event, null),
      writeRefused: (instance: string, started: CallStarted, finished: CallFinished) =>
        this.#write(task, instance, started, finished),
      ...(this.#awaited === null ? {} : { written: () => this.#written() }),
      showArguments: this.#showArguments,
      keepArguments,
    });
  }

  forService(): ServiceTrail {
    return Object.freeze({
      write: (event: AuditEvent) => this.#write(null, null, event, null),
      ...(this.#awaited === null ? {} : { written: () => this.#written() }),
    });
  }

  flushNow(): void {
    this.#postLast();
    const deadline = new DrainDeadline(performance.now(), this.#steps());
    for (;;) {
      const steps = this.#steps();
      this.#settle();
      const leftMs = deadline.leftMs(performance.now(), steps);
      if (this.#posted.length === 0 || leftMs <= 0) break;
      Atomics.wait(this.#progress, progressAt.steps, steps, leftMs);
    }
    this.#report();
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  #write(task: string | null, instance: string | null, event: AuditEvent, refused: CallFinished | null): void {
    if (this.#hasEnded) return;
    this.#settle();
    const happened = { task, instance, event, refused, atMs: Date.now() };
    if (!this.#kept.add(happened, MAX_QUEUED_CHARS - this.#queuedChars)) {
      this.#makeTexts();
      this.#pushAll([happened]);
    }
    this.#gather();
  }

  /** The lines of what is kept. */
  #makeTexts(): void {
    this.#pushAll(this.#kept.takeAll());
  }

  #pushAll(happened: readonly Happened[]): void {
    if (happened.length === 0) return;
    for (const text of textsOf(happened, this.#folding, this.#showArguments)) this.#push(text);
  }

  #gather(): void {
    const count = this.#kept.count + this.#events.length;
    if (count === 0) return; // it was counted instead of written, or found no place
    // Who waits for a line asks for it in the same moment, and must find it unposted.
    if (count >= MAX_GATHERED_EVENTS && this.#awaited === null) this.#post(false);
    else if (count >= GATHER_EVENTS) this.#hurried ??= setImmediate(this.#handOver);
    // The end of the process takes what it finds: it need not wait for this.
    else this.#flush ??= setTimeout(this.#handOver, GATHER_MS).unref();
  }

  #written(): Promise<boolean> {
    if (this.#hasEnded || this.#awaited === null) return Promise.resolve(false);
    const { number, outcome } = this.#awaited.ask();
    this.#post(false, number);
    return outcome;
  }

  #push(text: string): void {
    if (this.#hasEnded) return;
    this.#settle();
    if (this.#queuedChars + text.length > MAX_QUEUED_CHARS) {
      if (this.#events.length > 0) this.#post(false); // what was lost is told after what came before it
      this.#dropped++;
      return;
    }
    this.#queuedChars += text.length;
    this.#events.push(text);
  }

  readonly #handOver = () => {
    this.#makeTexts();
    this.#stopTimers();
    if (this.#events.length > 0) this.#post(false);
  };

  #stopTimers(): void {
    if (this.#flush !== null) clearTimeout(this.#flush);
    if (this.#hurried !== null) clearImmediate(this.#hurried);
    this.#flush = null;
    this.#hurried = null;
  }

  #post(isLast: boolean, asked: number | null = null): void {
    this.#makeTexts();
    this.#stopTimers();
    this.#hasEnded ||= isLast;
    const batch: AuditBatch = { events: this.#events, dropped: this.#dropped, isLast, asked };
    this.#posted.push(this.#events.reduce((sum, { length }) => sum + length, 0));
    this.#worker.postMessage(batch);
    this.#events = [];
    this.#dropped = 0;
  }

  #postLast(): void {
    this.#makeTexts();
    this.#folding.flush();
    if (!this.#hasEnded) this.#post(true);
    this.#stopListening();
  }

  /** Takes note of what the thread is done with. */
  #settle(): void {
    const done = Atomics.load(this.#progress, progressAt.batches);
    for (; this.#settled !== done; this.#settled = (this.#settled + 1) | 0) {
      this.#queuedChars -= this.#posted.shift() ?? 0;
    }
  }

  async #end(): Promise<void> {
    this.#worker.ref();
    this.#postLast();
    const deadline = new DrainDeadline(performance.now(), this.#steps());
    const stalled = Promise.withResolvers<void>();
    const timer = setInterval(() => {
      if (deadline.leftMs(performance.now(), this.#steps()) <= 0) stalled.resolve();
    }, DRAIN_CHECK_MS);
    await Promise.race([this.#exited, stalled.promise]);
    clearInterval(timer);
    process.off('exit', this.#atExit);
    this.#settle();
    if (this.#posted.length > 0) this.#fail('ETIMEDOUT');
    this.#report();
    await this.#worker.terminate();
  }

  #steps(): number {
    return Atomics.load(this.#progress, progressAt.steps);
  }

  #report(): void {
    const number = Atomics.load(this.#progress, progressAt.failure);
    if (number !== 0) this.#fail(getSystemErrorName(-number));
  }

  #fail(code: string): void {
    if (this.#reported) return;
    this.#reported = true;
    this.#onFailure(code);
  }
}

/** How long a call waits for its line to be written. */
const WRITTEN_MS = 5_000;

/** Batches whose writers wait until they are in the file. */
export class AwaitedBatches {
  readonly #waiting = new Map<number, (isWritten: boolean) => void>();
  #last = 0;

  /** False also if nothing is heard of the batch for too long. */
  ask(): { readonly number: number; readonly outcome: Promise<boolean> } {
    const number = ++this.#last;
    const { promise: outcome, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => this.settle({ asked: number, isWritten: false }), WRITTEN_MS);
    this.#waiting.set(number, (isWritten) => {
      clearTimeout(timer);
      resolve(isWritten);
    });
    return { number, outcome };
  }

  settle({ asked, isWritten }: BatchOutcome): void {
    this.#waiting.get(asked)?.(isWritten);
    this.#waiting.delete(asked);
  }

  /** Nothing is written any more. */
  failAll(): void {
    for (const asked of [...this.#waiting.keys()]) this.settle({ asked, isWritten: false });
  }
}

/** How long a thread that stopped writing is waited for: its disk hangs, or the reader of its pipe does not read. */
export const STALLED_MS = 5_000;
/** How long a thread that has not run yet is waited for. Starting one takes seconds of wall time on a busy machine. */
export const START_MS = 60_000;

/**
 * Decides when a closing audit log gives up on its writer thread. Only a lack of progress counts: a fixed time since the
 * close would drop the lines of a thread that is slow because the machine is busy.
 */
export class DrainDeadline {
  #steps: number;
  #untilMs: number;

  /** `steps`: the thread's count of finished steps; 0 until it runs. */
  constructor(nowMs: number, steps: number) {
    this.#steps = steps;
    this.#untilMs = nowMs + allowedMs(steps);
  }

  /** Milliseconds that the thread may still take for its next step; 0 or less when it is to be given up. */
  leftMs(nowMs: number, steps: number): number {
    if (steps !== this.#steps) {
      this.#steps = steps;
      this.#untilMs = nowMs + allowedMs(steps);
    }
    return this.#untilMs - nowMs;
  }
}

function allowedMs(steps: number): number {
  return steps === 0 ? START_MS : STALLED_MS;
}

/** Identity of this process in its audit log. */
export function originOf(version: string): AuditWriterOptions['origin'] {
  return { pid: process.pid, spear: version, host: hostname(), user: userName(), uid: process.geteuid?.() ?? null };
}

/** In a container the number of a user often has no name. */
function userName(): string | null {
  try {
    return userInfo().username;
  } catch {
    return null;
  }
}
