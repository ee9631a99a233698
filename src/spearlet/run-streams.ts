import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { FRAME_BYTES } from '../abi/calls.ts';
import { HubGate } from '../run/streams/hub-gate.ts';
import type { StreamListener } from '../run/streams/stream-listener.ts';
import { STREAM_PROTOCOL, serveStreamSocket } from '../run/streams/websocket-listener.ts';
import { mayName, refusal } from '../sms/people/identity.ts';
import type { NodeAccess } from './node-access.ts';

const TOKEN_BYTES = 16;
/** How long somebody has to connect who asked for a session. */
export const SESSION_MS = 60_000;
const MAX_SESSIONS = 10_000;
const PATH = /^\/api\/v1\/executions\/([\w-]{1,64})\/streams\/ws$/;

/** Calls back once when whoever connects is no longer who they were. The returned function ends that. */
type WhileValid = (ended: () => void) => () => void;

interface Session {
  readonly run: string;
  readonly until: number;
  readonly whileValid: WhileValid;
}

interface Streaming {
  readonly namespace: string;
  readonly gate: HubGate;
}

/** The clients of user streams of the runs that run here: a WebSocket each, one frame a binary message. */
export class RunStreams {
  readonly #runs = new Map<string, Streaming>();
  readonly #sessions = new Map<string, Session>();
  readonly #sockets = new WebSocketServer({ noServer: true, maxPayload: FRAME_BYTES, perMessageDeflate: false });
  readonly #access: NodeAccess;
  readonly #onProblem: (run: string, text: string) => void;

  constructor(access: NodeAccess, onProblem: (run: string, text: string) => void) {
    this.#access = access;
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
  session(run: string, whileValid: WhileValid): string | null {
    if (!this.#runs.has(run)) return null;
    const now = performance.now();
    for (const [token, { until }] of this.#sessions) {
      if (until > now && this.#sessions.size < MAX_SESSIONS) break;
      this.#sessions.delete(token);
    }
    const token = randomBytes(TOKEN_BYTES).toString('hex');
    this.#sessions.set(token, { run, until: now + SESSION_MS, whileValid });
    return token;
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => {});
    void this.#find(request).then((found) => {
      if (typeof found === 'string') {
        refuse(socket, found);
        return;
      }
      const { run, streaming, whileValid } = found;
      streaming.gate.whenOpen((hub) => {
        if (hub.isTaken) {
          refuse(socket, '409 Conflict');
          return;
        }
        this.#sockets.handleUpgrade(request, socket, head, (client) => {
          client.once(
            'close',
            whileValid(() => client.terminate()),
          );
          serveStreamSocket(hub, client, (text) => this.#onProblem(run, text));
        });
      });
    });
  }

  close(): void {
    for (const client of this.#sockets.clients) client.terminate();
  }

  /** The run that a client wants, or the status that it is refused with. */
  async #find(request: IncomingMessage) {
    const url = URL.parse(request.url ?? '', 'ws://localhost');
    const run = PATH.exec(url?.pathname ?? '')?.[1];
    if (url === null || run === undefined) return '404 Not Found';
    const whileValid = await this.#allowed(run, url.searchParams.get('token'), request);
    if (whileValid === null) return '401 Unauthorized';
    const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
    if (!offered.includes(STREAM_PROTOCOL)) return '400 Bad Request';
    const streaming = this.#runs.get(run);
    return streaming === undefined ? '409 Conflict' : { run, streaming, whileValid };
  }

  /** By the token of a session, which is good for once, or by one that may submit in the namespace of the run. */
  async #allowed(run: string, token: string | null, { headers }: IncomingMessage): Promise<WhileValid | null> {
    const session = this.#sessions.get(token ?? '');
    if (token !== null) this.#sessions.delete(token);
    if (session !== undefined)
      return session.run === run && session.until > performance.now() ? session.whileValid : null;
    const caller = await this.#access.identify(headers.authorization);
    if (typeof caller === 'string' || refusal(caller, { needs: 'submit', namespaced: true }) !== null) return null;
    if (!mayName(caller, this.#runs.get(run)?.namespace ?? '')) return null;
    return (ended) => this.#access.whileValid(headers.authorization, caller, ended);
  }
}

function refuse(socket: Duplex, status: string): void {
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
}
