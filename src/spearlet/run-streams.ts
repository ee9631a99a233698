import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { FRAME_BYTES } from '../abi/calls.ts';
import { HubGate } from '../run/streams/hub-gate.ts';
import type { StreamListener } from '../run/streams/stream-listener.ts';
import { STREAM_PROTOCOL, serveStreamSocket } from '../run/streams/websocket-listener.ts';
import type { NodeIdentity } from './node-access.ts';

const TOKEN_BYTES = 16;
/** How long somebody has to connect who asked for a session. */
export const SESSION_MS = 60_000;
const MAX_SESSIONS = 10_000;
const PATH = /^\/api\/v1\/executions\/([\w-]{1,64})\/streams\/ws$/;

interface Streaming {
  readonly namespace: string;
  readonly gate: HubGate;
}

/** The clients of user streams of the runs that run here: a WebSocket each, one frame a binary message. */
export class RunStreams {
  readonly #runs = new Map<string, Streaming>();
  readonly #sessions = new Map<string, { readonly run: string; readonly until: number }>();
  readonly #sockets = new WebSocketServer({ noServer: true, maxPayload: FRAME_BYTES, perMessageDeflate: false });
  readonly #identify: (authorization: string | undefined) => NodeIdentity | null;
  readonly #onProblem: (run: string, text: string) => void;

  constructor(
    identify: (authorization: string | undefined) => NodeIdentity | null,
    onProblem: (run: string, text: string) => void,
  ) {
    this.#identify = identify;
    this.#onProblem = onProblem;
  }

  /** For one attempt at a run. */
  listen(namespace: string, run: string): StreamListener {
    const gate = new HubGate();
    this.#runs.set(run, { namespace, gate });
    return {
      address: null,
      attach: (hub) => gate.open(hub),
      close: async () => {
        if (this.#runs.get(run)?.gate === gate) this.#runs.delete(run);
      },
    };
  }

  /** A token that lets somebody connect once, soon; null: the run does not run here. */
  session(run: string): string | null {
    if (!this.#runs.has(run)) return null;
    const now = performance.now();
    for (const [token, { until }] of this.#sessions) {
      if (until > now && this.#sessions.size < MAX_SESSIONS) break;
      this.#sessions.delete(token);
    }
    const token = randomBytes(TOKEN_BYTES).toString('hex');
    this.#sessions.set(token, { run, until: now + SESSION_MS });
    return token;
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => {});
    const found = this.#find(request);
    if (typeof found === 'string') {
      refuse(socket, found);
      return;
    }
    const { run, streaming } = found;
    streaming.gate.whenOpen((hub) => {
      if (hub.isTaken) {
        refuse(socket, '409 Conflict');
        return;
      }
      this.#sockets.handleUpgrade(request, socket, head, (client) =>
        serveStreamSocket(hub, client, (text) => this.#onProblem(run, text)),
      );
    });
  }

  close(): void {
    for (const client of this.#sockets.clients) client.terminate();
  }

  /** The run that a client wants, or the status that it is refused with. */
  #find(request: IncomingMessage): { readonly run: string; readonly streaming: Streaming } | string {
    const url = URL.parse(request.url ?? '', 'ws://localhost');
    const run = PATH.exec(url?.pathname ?? '')?.[1];
    if (url === null || run === undefined) return '404 Not Found';
    if (!this.#mayConnect(run, url.searchParams.get('token'), request)) return '401 Unauthorized';
    const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
    if (!offered.includes(STREAM_PROTOCOL)) return '400 Bad Request';
    const streaming = this.#runs.get(run);
    return streaming === undefined ? '409 Conflict' : { run, streaming };
  }

  /** By the token of a session, which is good for once, or by one that may submit in the namespace of the run. */
  #mayConnect(run: string, token: string | null, { headers }: IncomingMessage): boolean {
    const session = this.#sessions.get(token ?? '');
    if (token !== null) this.#sessions.delete(token);
    if (session !== undefined) return session.run === run && session.until > performance.now();
    const caller = this.#identify(headers.authorization);
    if (caller === null) return false;
    return caller.namespace === null || caller.namespace === this.#runs.get(run)?.namespace;
  }
}

function refuse(socket: Duplex, status: string): void {
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
}
