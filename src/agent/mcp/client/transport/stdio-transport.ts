import type { Writable } from 'node:stream';
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { type JsonObject, parseJson } from '../../../../base/json.ts';
import {
  type CallSender,
  callText,
  PendingRequests,
  type RequestObserver,
  requestText,
  type ToolRequest,
} from '../call-sender.ts';
import { McpConnectionError, McpOutputError } from '../errors.ts';
import type { SupervisedProcess } from '../process/supervised-process.ts';
import { answeredRequest, beginningOfText, LineFramer, type OversizedLine } from './line-framer.ts';
import { failRequest, type LossReport } from './transport.ts';

export interface StdioTransportDeps {
  readonly serverId: string;
  start(): Promise<SupervisedProcess>;
  /** Makes a message of a text, or throws where it is none. */
  parse(text: string): JSONRPCMessage;
  /** Told once, before `onclose`, why the connection ended without our doing. */
  lost: LossReport;
  /** Whether a message is a question, during this call, and answered there. */
  asked(message: JSONRPCMessage, call: RequestObserver | null): boolean;
  /** Told about the first line of stdout in a window that is no message. */
  garbage(): void;
  readonly maxMessageBytes: number;
  /** Within `garbageWindowMs`: a server that logs to stdout is read on, one that floods it is not. */
  readonly maxGarbageLines: number;
  readonly garbageWindowMs: number;
}

/** What a dead server wrote last may still be in the pipe; a grandchild that holds the pipe open is not waited for. */
const DRAIN_MS = 100;
/** A pipe that broke is told by the end of the process, which says why; that comes a moment later. */
const BROKEN_PIPE_MS = 1_000;
/** So many calls are enough for one write: the server begins with them while those that follow are made. */
const MAX_GATHERED_CALLS = 32;
/** An answer that goes on beyond its bound is skipped up to here, then the connection is given up. */
const SKIP_FACTOR = 16;

/**
 * MCP over the pipes of a child process. Unlike the library's own it notices the death of the process by its exit, not
 * by its pipes, bounds what it reads, and leaves no descendant behind. Calls of tools have lines of their own here, and
 * their answers are taken before the library reads them.
 */
export class StdioTransport implements Transport, CallSender {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport['onmessage']>;
  readonly #deps: StdioTransportDeps;
  readonly #framer: LineFramer;
  readonly calls = this;
  readonly #pending = new PendingRequests();
  /** Lines of calls that were made in one breath: they go together, because each write may wake the server. */
  #gathered = '';
  #gatheredCalls: string[] = [];
  #process: SupervisedProcess | null = null;
  #sessionMeta: JsonObject | null = null;
  #garbageLines = 0;
  #garbageSince = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(deps: StdioTransportDeps) {
    this.#deps = deps;
    this.#framer = new LineFramer(deps.maxMessageBytes, {
      line: (bytes) => this.#read(bytes.toString('utf8').trim()),
      oversized: (line) => this.#skipped(line),
    });
  }

  async start(): Promise<void> {
    const running = await this.#deps.start();
    if (this.#closed) {
      await running.end();
      return;
    }
    this.#process = running;
    const { stdin, stdout } = running.child;
    // A broken stdin shows in the write that needed it, a broken stdout in the exit.
    stdin.on('error', () => {});
    stdout.on('error', () => {});
    stdout.on('data', (chunk: Buffer) => this.#receive(chunk));
    stdout.once('end', () => {
      setTimeout(() => this.#giveUp('the server closed its stdout'), DRAIN_MS).unref();
    });
    const drained = new Promise<void>((resolve) => stdout.once('close', resolve));
    void running.exited.then(async (how) => {
      const timer = setTimeout(() => stdout.destroy(), DRAIN_MS);
      await drained;
      clearTimeout(timer);
      this.#lose(`the server process ended (${how})`);
    });
  }

  send(message: JSONRPCMessage): Promise<void> {
    return new Promise((resolve, reject) => {
      const stdin = this.#writable();
      this.#writeGathered();
      stdin.write(`${JSON.stringify(message)}\n`, (error) => {
        if (error == null) resolve();
        else setTimeout(reject, BROKEN_PIPE_MS, error);
      });
    });
  }

  /** So the library knows that silence, here, is that of an old server. */
  get pid(): number | null {
    return this.#process?.child.pid ?? null;
  }

  /** Read elsewhere; part of the same sign. */
  get stderr(): null {
    return null;
  }

  /** For servers without sessions: `_meta` of every request. */
  setSessionMeta(meta: JsonObject): void {
    this.#sessionMeta = meta;
  }

  call(request: ToolRequest, observer: RequestObserver): string {
    return this.#sendLine(observer, (id) => callText(id, request, this.#sessionMeta, observer.wantsProgress));
  }

  request(method: string, params: JsonObject, observer: RequestObserver): string {
    return this.#sendLine(observer, (id) => requestText(id, method, params, this.#sessionMeta));
  }

  cancel(id: string, reason: string): void {
    if (this.#pending.take(id) === undefined) return;
    const about = this.#sessionMeta === null ? {} : { _meta: this.#sessionMeta };
    const params = { requestId: id, reason, ...about };
    this.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params }).catch(() => {});
  }

  /** Resolves when nothing is left of the server. Never rejects. */
  async close(): Promise<void> {
    this.#finish();
    await this.#process?.end();
  }

  /** @throws McpConnectionError where nobody reads any more */
  #writable(): Writable {
    const stdin = this.#process?.child.stdin;
    const waiting = (stdin?.writableLength ?? 0) + this.#gathered.length;
    if (waiting > this.#deps.maxMessageBytes) {
      this.#giveUp(`the server does not read its stdin (${waiting} bytes queued)`);
    }
    if (!this.#closed && stdin?.writable) return stdin;
    const message = `server "${this.#deps.serverId}" no longer reads its stdin`;
    throw new McpConnectionError(this.#deps.serverId, 'lost', message);
  }

  #sendLine(observer: RequestObserver, textOf: (id: string) => string): string {
    this.#writable();
    const id = this.#pending.add(observer);
    try {
      this.#writeLine(textOf(id), id);
    } catch (error) {
      this.#pending.take(id);
      throw error;
    }
    return id;
  }

  /** Goes before anything else happens in this thread, at the end of whatever made the call. */
  #writeLine(line: string, call: string): void {
    this.#gathered += `${line}\n`;
    if (this.#gatheredCalls.push(call) === 1) queueMicrotask(this.#writeGathered);
    else if (this.#gatheredCalls.length === MAX_GATHERED_CALLS) this.#writeGathered();
  }

  readonly #writeGathered = (): void => {
    if (this.#gathered === '') return;
    const [lines, calls] = [this.#gathered, this.#gatheredCalls];
    this.#gathered = '';
    this.#gatheredCalls = [];
    this.#process?.child.stdin.write(lines, (error) => {
      if (error == null) return;
      setTimeout(() => {
        for (const id of calls) this.#pending.fail(id, error);
      }, BROKEN_PIPE_MS);
    });
  };

  #receive(chunk: Buffer): void {
    if (this.#closed) return;
    this.#framer.push(chunk);
    if (this.#framer.pendingBytes > SKIP_FACTOR * this.#deps.maxMessageBytes) {
      this.#giveUp(`the server sent a message without an end (${this.#framer.pendingBytes} bytes so far)`);
    }
  }

  #read(text: string): void {
    if (this.#closed || text === '') return;
    if (this.#pending.size > 0 && this.#pending.settle(parseJson(text))) {
      this.#garbageLines = 0;
      return;
    }
    let message: JSONRPCMessage;
    try {
      message = this.#deps.parse(text);
    } catch {
      this.#garbage();
      return;
    }
    if (!this.#deps.asked(message, this.#pending.only)) this.onmessage?.(message);
  }

  #garbage(): void {
    const { maxGarbageLines, garbageWindowMs } = this.#deps;
    const now = performance.now();
    if (now - this.#garbageSince >= garbageWindowMs) {
      this.#garbageSince = now;
      this.#garbageLines = 0;
      this.#deps.garbage();
    }
    this.#garbageLines += 1;
    if (this.#garbageLines <= maxGarbageLines) return;
    this.#giveUp(
      `the server wrote ${this.#garbageLines} lines to stdout that are not MCP messages in ${garbageWindowMs} ms`,
    );
  }

  #skipped(line: OversizedLine): void {
    if (this.#closed) return;
    const request = answeredRequest(line);
    const size = `${line.bytes} bytes; the limit is ${this.#deps.maxMessageBytes}`;
    if (request === null) {
      this.#giveUp(`the server sent a message of ${size}`);
      return;
    }
    const error = new McpOutputError(this.#deps.serverId, `the response has ${size}`, beginningOfText(line.head));
    if (typeof request === 'string' && this.#pending.has(request)) this.#pending.fail(request, error);
    else failRequest(this, request, error);
  }

  #giveUp(why: string): void {
    if (this.#closed) return;
    this.#lose(`the connection was closed: ${why}`);
    this.#process?.child.stdout.destroy();
    void this.#process?.end();
  }

  #lose(why: string): void {
    if (this.#closed) return;
    this.#deps.lost(why);
    this.#finish();
  }

  #finish(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onclose?.();
    this.#pending.failAll(new Error('Connection closed'));
  }
}
