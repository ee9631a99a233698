import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

interface Request {
  readonly tools?: readonly { readonly function: { readonly name: string } }[];
}

/** A model whose answer is the names of the tools that it was given: what a run had is in its result. */
export async function startTellingModel(): Promise<{ readonly url: string; close(): void }> {
  const server = createServer(async (request, response) => {
    const { tools = [] } = (await json(request)) as Request;
    const content = `tools: ${tools.map((tool) => tool.function.name).join(' ')}`;
    const message = { role: 'assistant', content };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage: {} }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
