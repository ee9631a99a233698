import {
  Client,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import type { ToolboxServer } from '../../src/agent/mcp/toolbox-server.ts';

const LIST_TIMEOUT_MS = 60_000;
const PATH = '/usr/local/bin:/usr/bin:/bin';

/**
 * The names of the tools that the SDK's own client takes from a server, without anything of ours; asked in the old way
 * where the server does not bear another.
 * @throws whatever the SDK throws
 */
export function listBySdk(server: ToolboxServer, folder: string): Promise<string[]> {
  return listIn('auto', server, folder).catch(() => listIn('legacy', server, folder));
}

async function listIn(mode: 'auto' | 'legacy', { transport, env }: ToolboxServer, folder: string): Promise<string[]> {
  const client = new Client({ name: 'peers', version: '1.0.0' }, { versionNegotiation: { mode } });
  const options = { timeout: LIST_TIMEOUT_MS };
  try {
    await client.connect(transportOf(transport, { PATH, HOME: folder, ...env }), options);
    const { tools } = await client.listTools({}, options);
    return tools.map(({ name }) => name);
  } finally {
    await client.close();
  }
}

function transportOf(transport: ToolboxServer['transport'], env: Record<string, string>): Transport {
  if (transport.kind === 'stdio') {
    const { command, args = [], cwd } = transport;
    return new StdioClientTransport({
      command,
      args: [...args],
      env,
      stderr: 'ignore',
      ...(cwd === undefined ? {} : { cwd }),
    });
  }
  const url = new URL(transport.url);
  return transport.kind === 'streamable_http' ? new StreamableHTTPClientTransport(url) : new SSEClientTransport(url);
}
