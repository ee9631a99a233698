import { PORT, type RealServer } from './real-server.ts';

const streamable = (path = '/mcp') => ({ kind: 'streamable_http', path }) as const;
const sse = (path = '/sse') => ({ kind: 'http_sse_legacy', path }) as const;

/** Servers from npm that listen: most of them are on the other lists too, over stdio. */
export const httpServers: readonly RealServer[] = [
  {
    id: 'everything-http',
    package: '@modelcontextprotocol/server-everything',
    version: '2026.8.31',
    args: ['streamableHttp'],
    env: { PORT },
    http: streamable(),
  },
  {
    id: 'everything-sse',
    package: '@modelcontextprotocol/server-everything',
    version: '2026.8.31',
    args: ['sse'],
    env: { PORT },
    http: sse(),
  },
  {
    id: 'playwright-http',
    package: '@playwright/mcp',
    version: '0.0.83',
    args: ['--port', PORT, '--allowed-hosts', '*'],
    http: streamable(),
  },
  {
    id: 'playwright-sse',
    package: '@playwright/mcp',
    version: '0.0.83',
    args: ['--port', PORT, '--allowed-hosts', '*'],
    http: sse(),
  },
  {
    id: 'context7-http',
    package: '@upstash/context7-mcp',
    version: '4.1.1',
    args: ['--transport', 'http', '--port', PORT],
    http: streamable(),
  },
  {
    id: 'mongodb-http',
    package: 'mongodb-mcp-server',
    version: '3.0.4',
    args: ['--transport', 'http', '--httpPort', PORT],
    env: { MDB_MCP_TELEMETRY: 'disabled' },
    http: streamable(),
  },
  {
    id: 'chart-http',
    package: '@antv/mcp-server-chart',
    version: '0.9.10',
    args: ['--transport', 'streamable', '--port', PORT],
    http: streamable(),
  },
  {
    id: 'chart-sse',
    package: '@antv/mcp-server-chart',
    version: '0.9.10',
    args: ['--transport', 'sse', '--port', PORT],
    http: sse(),
  },
  {
    id: 'git-http',
    package: '@cyanheads/git-mcp-server',
    version: '2.15.3',
    env: { MCP_TRANSPORT_TYPE: 'http', MCP_HTTP_PORT: PORT, MCP_HTTP_HOST: '127.0.0.1' },
    http: streamable(),
  },
  {
    id: 'brave-http',
    package: '@brave/brave-search-mcp-server',
    version: '2.1.4',
    args: ['--transport', 'http', '--port', PORT, '--host', '127.0.0.1'],
    env: { BRAVE_API_KEY: 'made-up' },
    http: streamable(),
  },
  {
    id: 'dbhub-http',
    package: '@bytebase/dbhub',
    version: '1.4.0',
    args: ['--demo', '--transport', 'http', '--port', PORT],
    http: streamable(),
  },
  {
    id: 'kubernetes-sse',
    package: 'mcp-server-kubernetes',
    version: '4.1.7',
    env: { ENABLE_UNSAFE_SSE_TRANSPORT: '1', PORT },
    http: sse(),
  },
];
