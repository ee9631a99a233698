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
  /** Parses a message. @throws if the text is none */
  parse(text: string): JSONRPCMessage;
  /** Called once, before `onclose`, if the connection ended without `close`. */
  lost: LossReport;
  /** Handles a server request for user input or roots during this call. False: the message is none. */
  asked(message: JSONRPCMessage, call: RequestObserver | null): boolean;
  /** Called for the first line of each window that is no message. */
  garbage(): void;
  readonly maxMessageBytes: number;
  /** Per `garbageWindowMs`: a server may log to stdout by mistake, but not flood it. */
  readonly maxGarbageLines: number;
  readonly garbageWindowMs: number;
}

/** Time to read what a dead server left in the pipe. A grandchild may hold the pipe open, so the time is bounded. */
const DRAIN_MS = 100;
/** Delay before a broken pipe is reported: the exit of the process follows and gives the reason. */
const BROKEN_PIPE_MS = 1_000;
/** Calls per write: the server starts on a full batch while later calls are still being made. */
const MAX_BATCH = 32;
/** An oversized message is skipped up to this multiple of the limit; beyond it the connection is closed. */
const SKIP_FACTOR = 16;

/**
 * MCP over the pipes of a child process. Differences to the library's transport: it notices the death of the process by
 * its exit instead of its pipes, bounds what it reads, and leaves no descendant behind. Tool calls are written here
 * without the library, and their responses are taken before the library parses them.
 *
 * Invariants
 * - Lines keep the order of their calls; a message of the library flushes the batch before it is written.
 * - `lost` is called at most once, before `onclose`, and every pending call fails after it.
 * - The transport owns the process from `start()` on and ends it in `close()`, also when `start()` finishes late.
 *
 * Not handled here: restarts (connection.ts), stderr (process/stderr-log.ts), sandboxing and process groups (process/).
 */
export class StdioTransport implements Transport, CallSender {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport['onmessage']>;
  readonly #deps: StdioTransportDeps;
  readonly #framer: LineFramer;
  readonly calls = this;
  readonly #pending = new PendingRequests();
  /** Calls made in the same turn are written together. perf: bench/topics/mcp.ts "stdio, 32 submitted" */
  #batch = '';
  #batchIds: string[] = [];
  #process: SupervisedProcess | null = null;
  #sessionMeta: JsonObject | null = null;
  #garbageLines = 0;
  #garbageSince = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(deps: StdioTransportDeps) {
    this.#deps = deps;
    this.#framer = new LineFramer(deps.maxMessageBytes, {
      line: (bytes) => this.#read(bytes.toString('utf8').trim()),
      oversized: (line) => this.#skip(line),
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
    // A broken stdin fails the write, a broken stdout shows in the exit.
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
      this.#flush();
      stdin.write(`${JSON.stringify(message)}\n`, (error) => {
        if (error == null) resolve();
        else setTimeout(reject, BROKEN_PIPE_MS, error);
      });
    });
  }

  /** The library treats silence of a transport with `pid` and `stderr` as that of an old server. */
  get pid(): number | null {
    return this.#process?.child.pid ?? null;
  }

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

  /** Resolves when no process of the server is left. Never rejects. */
  async close(): Promise<void> {
    this.#finish();
    await this.#process?.end();
  }

  /** @throws McpConnectionError if the server does not read any more */
  #writable(): Writable {
    const stdin = this.#process?.child.stdin;
    const queued = (stdin?.writableLength ?? 0) + this.#batch.length;
    if (queued > this.#deps.maxMessageBytes) {
      this.#giveUp(`the server does not read its stdin (${queued} bytes queued)`);
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

  /** The batch is written in a microtask at the end of the current turn. */
  #writeLine(line: string, call: string): void {
    this.#batch += `${line}\n`;
    if (this.#batchIds.push(call) === 1) queueMicrotask(this.#flush);
    else if (this.#batchIds.length === MAX_BATCH) this.#flush();
  }

  readonly #flush = (): void => {
    if (this.#batch === '') return;
    const [lines, ids] = [this.#batch, this.#batchIds];
    this.#batch = '';
    this.#batchIds = [];
    this.#process?.child.stdin.write(lines, (error) => {
      if (error == null) return;
      setTimeout(() => {
        for (const id of ids) this.#pending.fail(id, error);
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

  #skip(line: OversizedLine): void {
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
