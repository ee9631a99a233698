import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { errorText } from '../base/errors.ts';
import type { StreamEnd } from '../run/streams/stream-client.ts';
import type { StreamListener } from '../run/streams/stream-listener.ts';
import { STREAM_PROTOCOL, serveStreamSocket } from '../run/streams/websocket-listener.ts';
import { FRAME_BYTES } from '../runtime/abi/calls.ts';
import type { CallerLimits } from '../server/http/caller-limits.ts';
import { peerOf } from '../server/http/connections.ts';
import { hostProblem, type OriginPolicy, originProblem } from '../server/http/origin-check.ts';
import { HttpProblem } from '../server/http/problem.ts';
import { mayName, refusal } from '../server/identity/identity.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { RunQueue } from '../server/queue/run-queue.ts';
import { hasEnded, type RunRecord } from '../server/records/run.ts';
import type { NodeAccess } from './node-access.ts';

const TOKEN_BYTES = 16;
/** Lifetime of a session token. */
export const SESSION_MS = 60_000;
const MAX_SESSIONS = 10_000;
const PATH = /^\/api\/v1\/executions\/([\w-]{1,64})\/streams\/ws$/;

const WRONG_HOST: SocketRefusal = {
  status: '421 Misdirected Request',
  reason: 'the Host header is not a name of this node; add the name to node.allowed_hosts',
};
const FOREIGN_ORIGIN: SocketRefusal = {
  status: '403 Forbidden',
  reason: 'the Origin header names another host than the Host header: web pages of other origins cannot connect',
};
const TAKEN: SocketRefusal = { status: '409 Conflict', reason: 'another client is connected' };
const NO_TOKEN: SocketRefusal = {
  status: '401 Unauthorized',
  reason: 'the token is missing or not valid for this run',
};
const TOO_MANY_TOKENS: SocketRefusal = {
  status: '429 Too Many Requests',
  reason: 'too many unknown tokens were sent from this address; try again',
  retryAfterS: 1,
};
const UNCHECKED: SocketRefusal = {
  status: '503 Service Unavailable',
  reason: 'the token cannot be checked: the registry is unreachable; try again',
  retryAfterS: 1,
};
const QUEUE_AWAY: SocketRefusal = {
  status: '503 Service Unavailable',
  reason: 'the queue of runs is unavailable; try again',
  retryAfterS: 1,
};
const ENDING: SocketRefusal = { status: '503 Service Unavailable', reason: 'the node is shutting down' };

/** Calls `ended` once when the token of the caller is no longer valid. Returns a function that stops the check. */
type WhileValid = (ended: () => void) => () => void;

interface StreamCaller {
  readonly name: string;
  readonly whileValid: WhileValid;
}

interface Session extends StreamCaller {
  readonly run: string;
  readonly until: number;
}

export interface RunStreamsOptions {
  readonly queue: Pick<RunQueue, 'find' | 'wake' | 'onChange'>;
  /** Name of this node. */
  readonly node: string;
  readonly access: NodeAccess;
  readonly origins: OriginPolicy;
  readonly callers: CallerLimits;
  readonly log: ServiceLog;
}

/**
 * WebSocket clients of the user streams of runs on this node; one frame per binary message.
 *
 * - A run has at most one client. The client of a queued or parked run wakes the run, and its handshake completes when the
 *   guest runs (WaitingClients, bounded in time and number).
 * - A client authenticates with a single-use session token or with a token that may submit in the namespace of the run,
 *   and is disconnected when its token is revoked.
 */
export class RunStreams {
  readonly #options: RunStreamsOptions;
  readonly #hubs = new Map<string, StreamEnd>();
  readonly #sessions = new Map<string, Session>();
  readonly #waiting = new WaitingClients();
  readonly #sockets = new WebSocketServer({ noServer: true, maxPayload: FRAME_BYTES, perMessageDeflate: false });
  readonly #unsubscribe: () => void;

  constructor(options: RunStreamsOptions) {
    this.#options = options;
    this.#unsubscribe = options.queue.onChange(({ id }) => {
      if (this.#waiting.has(id)) void this.#consider(id);
    });
  }

  /** Listener for one attempt. */
  listen(run: string): StreamListener {
    let own: StreamEnd | null = null;
    return {
      address: null,
      attach: (hub) => {
        own = hub;
        this.#hubs.set(run, hub);
        this.#waiting.admit(run, hub);
      },
      close: async () => {
        if (this.#hubs.get(run) === own) this.#hubs.delete(run);
      },
    };
  }

  /** Why clients cannot connect to the run here; null: they can, possibly after a wait. */
  whyNot({ status, node }: Pick<RunRecord, 'status' | 'node'>): string | null {
    if (hasEnded(status)) return `the run is ${status}; user streams are available until a run ends`;
    const isElsewhere = (status === 'running' || status === 'waiting') && node !== this.#options.node;
    return isElsewhere ? `the run is on node ${node}: connect to that node` : null;
  }

  /** Creates a single-use session token. */
  session(run: string, caller: StreamCaller): string {
    const now = performance.now();
    for (const [token, { until }] of this.#sessions) {
      if (until > now && this.#sessions.size < MAX_SESSIONS) break;
      this.#sessions.delete(token);
    }
    const token = randomBytes(TOKEN_BYTES).toString('hex');
    this.#sessions.set(token, { run, until: now + SESSION_MS, ...caller });
    return token;
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => {});
    void this.#find(request).then(async (found) => {
      if ('status' in found) {
        refuseSocket(socket, found);
        return;
      }
      const { run, name, whileValid } = found;
      const refused = this.#admit(name, request, socket);
      if (refused !== null) {
        refuseSocket(socket, refused);
        return;
      }
      const enter = (hub: StreamEnd) => {
        this.#sockets.handleUpgrade(request, socket, head, (client) => {
          client.once(
            'close',
            whileValid(() => client.terminate()),
          );
          serveStreamSocket(hub, client, socket, (text) => this.#problem(run, text));
        });
      };
      await this.#hubs.get(run)?.evictDeparted();
      if (socket.destroyed) return;
      const hub = this.#hubs.get(run);
      if (hub !== undefined && !hub.isOver) {
        if (hub.isTaken) refuseSocket(socket, TAKEN);
        else enter(hub);
      } else if (this.#waiting.add(run, socket, enter)) void this.#consider(run);
    });
  }

  /** Counts the connection as a stream of its caller until it closes, or returns why it exceeds a limit. */
  #admit(caller: string, request: IncomingMessage, socket: Duplex): SocketRefusal | null {
    try {
      const admitted = this.#options.callers.admit(caller, request.socket, 'stream');
      if (socket.destroyed) admitted.end();
      else socket.once('close', () => admitted.end());
      return null;
    } catch (error) {
      if (!(error instanceof HttpProblem)) throw error;
      return { status: '429 Too Many Requests', reason: error.message, retryAfterS: 1 };
    }
  }

  #problem(run: string, problem: string): void {
    this.#options.log('warn', 'stream', { run, problem });
  }

  close(): void {
    this.#unsubscribe();
    this.#waiting.close(ENDING);
    for (const client of this.#sockets.clients) client.terminate();
  }

  /** Rejects a waiting client, or wakes its run. */
  async #consider(id: string): Promise<void> {
    const { queue, node } = this.#options;
    try {
      const run = await queue.find(id);
      const reason = run === null ? 'the run has expired' : this.whyNot(run);
      if (reason !== null) this.#waiting.reject(id, { status: '409 Conflict', reason });
      else if (run?.status === 'parked') await queue.wake(run.namespace, id, node);
    } catch (error) {
      this.#problem(id, `the run could not be resumed for a stream client: ${errorText(error)}`); // the client waits until its deadline
    }
  }

  /** The run of a request, or the refusal. */
  async #find(request: IncomingMessage): Promise<(StreamCaller & { readonly run: string }) | SocketRefusal> {
    const { host, origin } = request.headers;
    if (hostProblem(host, this.#options.origins) !== null) return WRONG_HOST;
    if (originProblem(origin, host ?? '', this.#options.origins) !== null) return FOREIGN_ORIGIN;
    const url = URL.parse(request.url ?? '', 'ws://localhost');
    const run = PATH.exec(url?.pathname ?? '')?.[1];
    if (url === null || run === undefined) return { status: '404 Not Found', reason: 'no such path' };
    const caller = await this.#allowed(run, url.searchParams.get('token'), request);
    if ('status' in caller) return caller;
    const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
    if (offered.includes(STREAM_PROTOCOL)) return { run, ...caller };
    return { status: '400 Bad Request', reason: `the client does not offer the WebSocket protocol ${STREAM_PROTOCOL}` };
  }

  /** Authenticates by session token or by a token that may submit in the namespace of the run. */
  async #allowed(
    run: string,
    token: string | null,
    { headers, socket }: IncomingMessage,
  ): Promise<StreamCaller | SocketRefusal> {
    const session = this.#sessions.get(token ?? '');
    if (token !== null) this.#sessions.delete(token);
    if (session !== undefined) return session.run === run && session.until > performance.now() ? session : NO_TOKEN;
    const { access, queue } = this.#options;
    const caller = await access.identify(headers.authorization, peerOf(socket));
    if (caller === 'unavailable') return UNCHECKED;
    if (caller === 'too_many') return TOO_MANY_TOKENS;
    if (caller === 'unknown' || refusal(caller, { needs: 'submit', namespaced: true }) !== null) return NO_TOKEN;
    const found = await queue.find(run).catch(() => undefined);
    if (found === undefined) return QUEUE_AWAY;
    if (found === null || !mayName(caller, found.namespace)) return NO_TOKEN;
    const { name } = caller;
    return { name, whileValid: (ended) => access.whileValid(headers.authorization, peerOf(socket), caller, ended) };
  }
}

/** How long a client waits for the guest of a run that was woken for it. */
export const CONNECT_WAIT_MS = 30_000;
/** Maximum of waiting clients of all runs. */
const MAX_WAITING = 1_000;

export interface SocketRefusal {
  readonly status: string;
  /** Contains nothing that the client sent. */
  readonly reason: string;
  /** @default no Retry-After header */
  readonly retryAfterS?: number;
}

interface WaitingClient {
  readonly socket: Duplex;
  readonly enter: (hub: StreamEnd) => void;
  readonly stop: () => void;
}

/** Clients whose handshake completes when the guest of their run is ready; one per run. */
export class WaitingClients {
  readonly #waiting = new Map<string, WaitingClient>();

  has(run: string): boolean {
    return this.#waiting.has(run);
  }

  /** False: the client was rejected. */
  add(run: string, socket: Duplex, enter: (hub: StreamEnd) => void): boolean {
    if (this.#waiting.has(run)) {
      refuseSocket(socket, { status: '409 Conflict', reason: 'another client is waiting for the run' });
      return false;
    }
    if (this.#waiting.size >= MAX_WAITING) {
      refuseSocket(socket, { status: '503 Service Unavailable', reason: 'too many clients are waiting for runs' });
      return false;
    }
    const late = () => {
      const reason = `the run did not start within ${CONNECT_WAIT_MS / 1000} s; it resumes when a slot is free`;
      this.reject(run, { status: '503 Service Unavailable', reason });
    };
    const spoke = () =>
      this.reject(run, {
        status: '400 Bad Request',
        reason: 'the client sent frames before the handshake was complete',
      });
    const left = () => {
      this.#take(run);
      socket.destroy();
    };
    const timer = setTimeout(late, CONNECT_WAIT_MS);
    // Only reading detects that the client has left.
    socket.on('data', spoke).on('end', left).on('close', left);
    const stop = () => {
      clearTimeout(timer);
      socket.off('data', spoke).off('end', left).off('close', left);
    };
    this.#waiting.set(run, { socket, enter, stop });
    return true;
  }

  admit(run: string, hub: StreamEnd): void {
    this.#take(run)?.enter(hub);
  }

  reject(run: string, refusal: SocketRefusal): void {
    const waiting = this.#take(run);
    if (waiting !== undefined) refuseSocket(waiting.socket, refusal);
  }

  close(refusal: SocketRefusal): void {
    for (const run of [...this.#waiting.keys()]) this.reject(run, refusal);
  }

  #take(run: string): WaitingClient | undefined {
    const waiting = this.#waiting.get(run);
    this.#waiting.delete(run);
    waiting?.stop();
    return waiting;
  }
}

export function refuseSocket(socket: Duplex, { status, reason, retryAfterS }: SocketRefusal): void {
  const body = `${reason}\n`;
  const retry = retryAfterS === undefined ? '' : `\r\nretry-after: ${retryAfterS}`;
  const head = `HTTP/1.1 ${status}\r\nconnection: close${retry}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}`;
  // Otherwise a client that does not close its side would hold the connection.
  socket.end(`${head}\r\n\r\n${body}`, () => socket.destroy());
}
