import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface ChatMessage {
  readonly role: string;
  readonly content: string | null;
  readonly tool_call_id?: string;
}

export interface ModelRequest {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly { readonly function: { readonly name: string } }[];
  /** Answers with text, which ends the send. */
  say(text: string): void;
  /** Answers with one tool call. */
  call(name: string, args: unknown): void;
  /** Answers with several at once. */
  callAll(calls: readonly (readonly [name: string, args: unknown])[]): void;
}

/** A fake model over real HTTP: each request waits until the test has decided what the model says. */
export class SteeredModel {
  readonly #server: Server;
  readonly #requests: ModelRequest[] = [];
  readonly #waiting: ((request: ModelRequest) => void)[] = [];
  #calls = 0;

  constructor() {
    this.#server = createServer((req, res) => void this.#take(req, res));
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /** The next request of the guest. */
  next(): Promise<ModelRequest> {
    const request = this.#requests.shift();
    return request ? Promise.resolve(request) : new Promise((resolve) => this.#waiting.push(resolve));
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #take(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = JSON.parse(Buffer.concat(await req.toArray()).toString()) as Pick<ModelRequest, 'messages' | 'tools'>;
    const answer = (message: object) => {
      res.setHeader('content-type', 'application/json');
      res.end(JSON.stringify({ choices: [{ index: 0, message: { role: 'assistant', ...message } }] }));
    };
    const callAll: ModelRequest['callAll'] = (calls) => {
      const made = calls.map(([name, args]) => {
        const id = `call_${++this.#calls}`;
        return { id, type: 'function', function: { name, arguments: JSON.stringify(args) } };
      });
      answer({ content: null, tool_calls: made });
    };
    const request: ModelRequest = {
      ...body,
      say: (content) => answer({ content }),
      call: (name, args) => callAll([[name, args]]),
      callAll,
    };
    const waiting = this.#waiting.shift();
    if (waiting) waiting(request);
    else this.#requests.push(request);
  }
}
