import { FOLDER, PORT, type RealServer } from './real-server.ts';

const server = (name: string, version: string, more: Partial<RealServer> = {}): RealServer => ({
  id: `pypi-${name.replaceAll(/[._]/g, '-')}`,
  package: name,
  version,
  from: 'PyPI',
  ...more,
});

/** Servers from PyPI, most of them written with the Python SDK. */
export const pypiServers: readonly RealServer[] = [
  server('mcp-server-time', '2026.10.19', { args: ['--local-timezone', 'UTC'] }),
  server('mcp-server-fetch', '2026.10.24'),
  server('mcp-server-git', '2026.10.19'),
  server('mcp-server-calculator', '0.2.1'),
  server('mcp-simple-timeserver', '3.3.2'),
  server('duckduckgo-mcp-server', '0.7.0'),
  server('arxiv-mcp-server', '0.8.2', { args: ['--storage-path', FOLDER] }),
  server('awslabs.aws-documentation-mcp-server', '1.2.3', { env: { FASTMCP_LOG_LEVEL: 'ERROR' } }),
  server('office-word-mcp-server', '1.1.11', { bin: 'word_mcp_server' }),
  server('excel-mcp-server', '2.2.2', { args: ['stdio'] }),
  server('wikipedia-mcp', '2.0.1'),
  server('wikipedia-mcp', '2.0.1', {
    id: 'pypi-wikipedia-mcp-sse',
    args: ['--transport', 'sse', '--host', '127.0.0.1', '--port', PORT],
    http: { kind: 'http_sse_legacy', path: '/sse' },
  }),
];
