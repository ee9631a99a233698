import { FOLDER, type RealServer } from './real-server.ts';

/** The servers whose tools fixtures/tool-search/questions.jsonl asks about, by these ids. */
export const searchedServers: readonly RealServer[] = [
  { id: 'everything', package: '@modelcontextprotocol/server-everything', version: '2026.8.31', args: ['stdio'] },
  { id: 'filesystem', package: '@modelcontextprotocol/server-filesystem', version: '2026.8.31', args: [FOLDER] },
  { id: 'memory', package: '@modelcontextprotocol/server-memory', version: '2026.8.31' },
  { id: 'github', package: '@modelcontextprotocol/server-github', version: '2025.4.8' },
  {
    id: 'slack',
    package: '@modelcontextprotocol/server-slack',
    version: '2025.4.25',
    env: { SLACK_BOT_TOKEN: 'made-up', SLACK_TEAM_ID: 'T0' },
  },
  {
    id: 'maps',
    package: '@modelcontextprotocol/server-google-maps',
    version: '0.6.2',
    env: { GOOGLE_MAPS_API_KEY: 'made-up' },
  },
  {
    id: 'postgres',
    package: '@modelcontextprotocol/server-postgres',
    version: '0.6.2',
    args: ['postgresql://127.0.0.1:1/none'],
  },
  { id: 'playwright', package: '@playwright/mcp', version: '0.0.83' },
  { id: 'notion', package: '@notionhq/notion-mcp-server', version: '2.5.2', env: { NOTION_TOKEN: 'ntn_made-up' } },
  { id: 'kubernetes', package: 'mcp-server-kubernetes', version: '4.1.7' },
  {
    id: 'hubspot',
    package: '@hubspot/mcp-server',
    version: '0.4.0',
    env: { PRIVATE_APP_ACCESS_TOKEN: 'made-up' },
  },
  { id: 'devtools', package: 'chrome-devtools-mcp', version: '1.11.0' },
  {
    id: 'gitlab',
    package: '@zereight/mcp-gitlab',
    version: '2.1.64',
    env: {
      GITLAB_PERSONAL_ACCESS_TOKEN: 'made-up',
      USE_GITLAB_WIKI: 'true',
      USE_MILESTONE: 'true',
      USE_PIPELINE: 'true',
    },
  },
  { id: 'git', package: '@cyanheads/git-mcp-server', version: '2.15.3', env: { MCP_TRANSPORT_TYPE: 'stdio' } },
  { id: 'mongodb', package: 'mongodb-mcp-server', version: '3.0.4', env: { MDB_MCP_TELEMETRY: 'disabled' } },
  {
    id: 'elasticsearch',
    package: '@elastic/mcp-server-elasticsearch',
    version: '0.3.1',
    env: { ES_URL: 'http://127.0.0.1:1', ES_API_KEY: 'made-up' },
  },
  {
    id: 'line',
    package: '@line/line-bot-mcp-server',
    version: '0.5.0',
    env: { CHANNEL_ACCESS_TOKEN: 'made-up', DESTINATION_USER_ID: 'U0' },
  },
  {
    id: 'figma',
    package: 'figma-developer-mcp',
    version: '0.13.2',
    args: ['--stdio'],
    env: { FIGMA_API_KEY: 'made-up' },
  },
  {
    id: 'brave',
    package: '@brave/brave-search-mcp-server',
    version: '2.1.4',
    env: { BRAVE_API_KEY: 'made-up', BRAVE_MCP_TRANSPORT: 'stdio' },
  },
  { id: 'tavily', package: 'tavily-mcp', version: '0.2.22', env: { TAVILY_API_KEY: 'tvly-made-up' } },
  { id: 'firecrawl', package: 'firecrawl-mcp', version: '3.26.0', env: { FIRECRAWL_API_KEY: 'fc-made-up' } },
  { id: 'context7', package: '@upstash/context7-mcp', version: '4.1.1' },
];
