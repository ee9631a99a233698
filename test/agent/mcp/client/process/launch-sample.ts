// A host with an inherited descriptor: `node FILE STATE_DIR RECORD` connects to the server and prints the file `fds` of its HOME.
import { McpPool } from '../../../../../src/agent/mcp/client/pool.ts';
import type { ToolOutput } from '../../../../../src/agent/mcp/client/tool-result.ts';
import type { McpServerRecord } from '../../../../../src/server/records/server.ts';
import { createSecretSource } from '../../../../../src/server/secrets/secret-file.ts';

const [stateDir = '', given = ''] = process.argv.slice(2);
const record = JSON.parse(given) as McpServerRecord;
const policy = { mode: 'user_owned', names: [], paths: [], backendKeyNames: [] } as const;
const pool = new McpPool({ stateDir }, { secrets: createSecretSource(policy, {}) });

async function text(tool: string, args: Record<string, string> = {}): Promise<string> {
  const { json } = await new Promise<ToolOutput>((finished) =>
    pool.startCall(record, { tool, args, owner: 'host', finished }),
  );
  const { content, error } = JSON.parse(json);
  return content?.[0]?.text ?? JSON.stringify(error);
}

const environment = JSON.parse(await text('environment')) as Record<string, string>;
const fds = (await text('read', { path: `${environment.HOME}/fds` })).trim().split('\n');
process.stdout.write(JSON.stringify({ fds, environment: Object.keys(environment).sort() }));
await pool.close();
