import type { Random } from '../random.ts';

export interface HostileRequest {
  readonly id?: number | string;
  /** Missing in an answer to a request of the server’s own. */
  readonly method?: string;
  readonly params?: { readonly name?: string; readonly cursor?: string; readonly arguments?: { message?: string } };
}

/** What a server writes to, whatever the transport. */
export interface Wire {
  /** One message, framed as the transport has it. */
  message(value: unknown): undefined;
  /** The same for a text that need not be JSON. */
  text(text: string): undefined;
  /** Bytes as they are, without any frame. */
  raw(bytes: string | Buffer): undefined;
  /** Closes what it answers on, in order. */
  close(): undefined;
  /** Goes away in the middle of it. */
  die(): undefined;
  /** Calls `write` again and again, no faster than it is read, until nobody reads any more. */
  forEver(write: () => void): undefined;
}

export interface Behaviour {
  /** Whether calls have to work all the same. @default false */
  readonly fine?: boolean;
  /** `open`: what it answers on stays open. */
  on(request: HostileRequest, wire: Wire, random: Random): undefined | 'open';
}

const tool = { name: 'echo', description: 'repeats', inputSchema: { type: 'object' } };

/** What an honest server would say. */
export function honestResult({ method, params }: HostileRequest): unknown {
  switch (method) {
    case 'initialize':
      return {
        protocolVersion: '2025-11-25',
        capabilities: { tools: { listChanged: true }, logging: {} },
        serverInfo: { name: 'hostile', version: '1' },
      };
    case 'tools/list':
      return { tools: [tool] };
    case 'tools/call':
      return { content: [{ type: 'text', text: String(params?.arguments?.message) }] };
    default:
      return {};
  }
}

export const answer = (request: HostileRequest, result: unknown = honestResult(request)) => ({
  jsonrpc: '2.0',
  id: request.id,
  result,
});

const isAsked = ({ id, method }: HostileRequest) => id !== undefined && method !== undefined;

export function honest(request: HostileRequest, wire: Wire): undefined {
  if (isAsked(request)) wire.message(answer(request));
}

type Stage = 'initialize' | 'tools/list' | 'tools/call';

/** Honest but for one kind of request. */
export const at = (stage: Stage, act: Behaviour['on'], fine = false): Behaviour => ({
  fine,
  on: (request, wire, random) => (request.method === stage ? act(request, wire, random) : honest(request, wire)),
});

/** Does something before every answer, and then answers. */
export const before = (act: (wire: Wire, request: HostileRequest) => void, fine = true): Behaviour => ({
  fine,
  on: (request, wire) => {
    if (isAsked(request)) act(wire, request);
    return honest(request, wire);
  },
});

export const notification = (method: string, params: object = {}) => ({ jsonrpc: '2.0', method, params });
