import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** A model that asks for its tools once and then answers. Its answers are made before anything is measured. */
export interface ModelEndpoint {
  readonly baseUrl: string;
  /** The bodies of the last turn, in the order they came: what a plain client has to send for the same turn. */
  readonly bodies: () => readonly string[];
  close(): Promise<void>;
}

export interface ModelToolCall {
  readonly name: string;
  readonly arguments: string;
}

const message = (content: object, reason: string): string =>
  JSON.stringify({
    id: 'chatcmpl-bench',
    object: 'chat.completion',
    created: 1_700_000_000,
    model: 'bench',
    choices: [{ index: 0, finish_reason: reason, message: { role: 'assistant', ...content } }],
    usage: { prompt_tokens: 120, completion_tokens: 30, total_tokens: 150 },
  });

export async function openModelEndpoint(calls: readonly ModelToolCall[]): Promise<ModelEndpoint> {
  const toolCalls = calls.map((fn, index) => ({ id: `call_${index}`, type: 'function', function: fn }));
  const asking = message({ content: null, tool_calls: toolCalls }, 'tool_calls');
  const answering = message({ content: 'It is 21 degrees in Lisbon.' }, 'stop');
  let bodies: string[] = [];

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request);
    const isFirst = !body.includes('"role":"tool"');
    bodies = isFirst ? [body] : [...bodies, body];
    response.writeHead(200, { 'content-type': 'application/json' }).end(isFirst ? asking : answering);
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    bodies: () => bodies,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
