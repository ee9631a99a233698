import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { McpConnectionError, McpOutputError } from '../errors.ts';
import type { SupervisedProcess } from '../process/supervised-process.ts';
import { LineFramer, type OversizedLine } from './line-framer.ts';
import { answeredRequest, beginningOfText } from './oversized-answer.ts';
import { failRequest, type LossReport } from './transport-failure.ts';

export interface StdioTransportDeps {
  readonly serverId: string;
  start(): Promise<SupervisedProcess>;
  /** Makes a message of a text, or throws where it is none. */
  parse(text: string): JSONRPCMessage;
  /** Told once, before `onclose`, why the connection ended without our doing. */
  lost: LossReport;
  /** Told about the first line of stdout since the last message that is none. */
  garbage(): void;
  readonly maxMessageBytes: number;
  readonly maxGarbageLines: number;
}

/** What a dead server wrote last may still be in the pipe; a grandchild that holds the pipe open is not waited for. */
const DRAIN_MS = 100;
/** An answer that goes on beyond its bound is skipped up to here, then the connection is given up. */
const SKIP_FACTOR = 16;

/**
 * MCP over the pipes of a child process. Unlike the library's own it notices the death of the process by its exit, not
 * by its pipes, bounds what it reads, and leaves no descendant behind.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: NonNullable<Transport['onmessage']>;
  readonly #deps: StdioTransportDeps;
  readonly #framer: LineFramer;
  #process: SupervisedProcess | null = null;
  #garbageLines = 0;
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
      setTimeout(() => this.#giveUp('it closed its stdout'), DRAIN_MS).unref();
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
      const stdin = this.#process?.child.stdin;
      if (this.#closed || stdin === undefined || !stdin.writable) {
        const message = `server "${this.#deps.serverId}" does not read any more`;
        reject(new McpConnectionError(this.#deps.serverId, 'lost', message));
        return;
      }
      if (stdin.writableLength > this.#deps.maxMessageBytes) {
        this.#giveUp(`it does not read what is sent to it (${stdin.writableLength} bytes wait)`);
      }
      stdin.write(`${JSON.stringify(message)}\n`, (error) => (error == null ? resolve() : reject(error)));
    });
  }

  /** Resolves when nothing is left of the server. Never rejects. */
  async close(): Promise<void> {
    this.#finish();
    await this.#process?.end();
  }

  #receive(chunk: Buffer): void {
    if (this.#closed) return;
    this.#framer.push(chunk);
    if (this.#framer.pendingBytes > SKIP_FACTOR * this.#deps.maxMessageBytes) {
      this.#giveUp(`it writes a message that does not end (${this.#framer.pendingBytes} bytes so far)`);
    }
  }

  #read(text: string): void {
    if (this.#closed || text === '') return;
    let message: JSONRPCMessage;
    try {
      message = this.#deps.parse(text);
    } catch {
      this.#garbage();
      return;
    }
    this.#garbageLines = 0;
    this.onmessage?.(message);
  }

  #garbage(): void {
    this.#garbageLines += 1;
    if (this.#garbageLines === 1) this.#deps.garbage();
    if (this.#garbageLines <= this.#deps.maxGarbageLines) return;
    this.#giveUp(`it wrote ${this.#garbageLines} lines on stdout that are no MCP messages`);
  }

  #skipped(line: OversizedLine): void {
    if (this.#closed) return;
    const request = answeredRequest(line);
    const size = `${line.bytes} bytes, at most ${this.#deps.maxMessageBytes} are read`;
    if (request === null) {
      this.#giveUp(`it wrote a message of ${size}`);
      return;
    }
    this.#garbageLines = 0;
    const error = new McpOutputError(this.#deps.serverId, `the answer has ${size}`, beginningOfText(line.head));
    failRequest(this, request, error);
  }

  #giveUp(why: string): void {
    if (this.#closed) return;
    this.#lose(`the connection was given up: ${why}`);
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
  }
}
