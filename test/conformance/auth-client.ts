// The client that the conformance suite starts for its auth scenarios: `node test/conformance/auth-client.ts URL`,
// through our own pool. Where somebody would log in with a browser, this follows the redirects itself.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { login } from '../../src/agent/mcp/client/oauth/login.ts';
import { LoginStore } from '../../src/agent/mcp/client/oauth/login-store.ts';
import { openPool } from '../../src/agent/mcp/client/open-pool.ts';
import type { McpPool } from '../../src/agent/mcp/client/pool.ts';
import { loginsDirectory } from '../../src/agent/mcp/client/pool-options.ts';
import { resolveRecord } from '../../src/agent/mcp/client/resolved-record.ts';
import { EgressRules } from '../../src/server/egress/egress.ts';
import { createHttpClient } from '../../src/server/egress/http-client.ts';
import { type McpServerRecord, parseRecord } from '../../src/server/records/server.ts';
import { createSecretSource } from '../../src/server/secrets/secret-file.ts';

interface Context {
  readonly name?: string;
  readonly client_id?: string;
  readonly client_secret?: string;
  readonly private_key_pem?: string;
  readonly issuer?: string;
}

/** The suite's own description of a client; it is never read, for the suite's authorization server takes it as a name. */
const CLIENT_METADATA_URL = 'https://conformance-test.local/client-metadata.json';
/** How often a person would log in because the server wants it. */
const MAX_LOGINS = 3;

const url = process.argv.at(-1) ?? '';
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}') as Context;
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? context.name ?? '';
const stateDir = await mkdtemp(join(tmpdir(), 'spear-conformance-'));
const variables = { CLIENT_SECRET: context.client_secret, PRIVATE_KEY: context.private_key_pem };

const isMachine = scenario.includes('client-credentials');
const record = recordOf({
  grant: isMachine ? 'client_credentials' : 'authorization_code',
  client_id: context.client_id,
  client_secret: context.client_secret === undefined ? undefined : 'env:CLIENT_SECRET',
  private_key: context.private_key_pem === undefined ? undefined : 'env:PRIVATE_KEY',
  issuer: context.issuer,
  client_metadata_url: CLIENT_METADATA_URL,
});

const references = { mode: 'user_owned', names: [], paths: [], backendKeyNames: [] } as const;
const egress = { allowHosts: null, allowAddresses: ['loopback'] };

try {
  if (!isMachine) await logIn();
  for (let left = MAX_LOGINS; !(await useAllTools()) && left > 1; left--) await logIn();
} finally {
  await rm(stateDir, { recursive: true, force: true });
}

/** What a run does. False: it was told to log in. */
async function useAllTools(): Promise<boolean> {
  const { pool, close } = await openPool({ references, variables, egress, stdio: null, stateDir, log: () => {} });
  try {
    const { tools } = await pool.listTools(record);
    for (const { name } of tools) await callTool(pool, name);
    return true;
  } catch (error) {
    process.stderr.write(`${String(error)}\n`);
    if (isMachine || !String(error).includes('spear servers login')) throw error;
    return false;
  } finally {
    await close();
  }
}

function callTool(pool: McpPool, tool: string): Promise<void> {
  return new Promise((resolve, reject) => {
    pool.startCall(record, {
      tool,
      args: {},
      owner: 'conformance',
      finished: ({ error }) => (error === null ? resolve() : reject(new Error(error.message))),
    });
  });
}

async function logIn(): Promise<void> {
  const library = await import('@modelcontextprotocol/client');
  const resolved = await resolveRecord(record, createSecretSource(references, variables));
  const http = await createHttpClient(new EgressRules());
  if (resolved.http === null || record.http?.oauth == null) throw new Error('the record has no http.oauth');
  try {
    await login({
      serverId: record.server_id,
      target: resolved.http,
      transport: record.transport,
      oauth: record.http.oauth,
      proof: resolved.clientProof,
      library,
      fetch: http.fetch,
      logins: new LoginStore(loginsDirectory(stateDir)),
      wallClock: Date.now,
      // The suite's authorization server asks nobody: it redirects to where we listen.
      show: (address) => void fetch(address),
      port: 0,
      signal: AbortSignal.timeout(10_000),
    });
  } finally {
    await http.close();
  }
}

function recordOf(oauth: Record<string, unknown>): McpServerRecord {
  const input = { server_id: 'peer', transport: 'streamable_http', http: { url, oauth }, allowed_tools: ['*'] };
  const parsed = parseRecord(input, { strict: true });
  if (!parsed.ok) throw new Error(parsed.issues.map(({ path, message }) => `${path} ${message}`).join('; '));
  return parsed.record;
}
