import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { McpPool } from '../../src/agent/mcp/client/pool.ts';
import { GuestMcp } from '../../src/agent/mcp/guest-mcp.ts';
import { ToolEvents } from '../../src/agent/mcp/tool-events.ts';
import { StaticRegistry } from '../../src/registry-client/cache.ts';
import { noLists, noToolSearch } from '../../src/runtime/port/policy-layers.ts';
import { openAuditLog } from '../../src/server/audit/log.ts';
import { type McpServerRecord, parseRecord } from '../../src/server/records/server.ts';
import { createSecretSource } from '../../src/server/secrets/secret-file.ts';

const server = fileURLToPath(new URL('./many-tools.mjs', import.meta.url));

export interface McpHost {
  readonly guest: GuestMcp;
  close(): Promise<void>;
}

/** `servers` servers with `tools` tools each: the pool, the policy and the trail of a host, without its threads. */
export function openMcpHost(servers: number, tools: number): McpHost {
  const folder = mkdtempSync(join(tmpdir(), 'spear-bench-'));
  const records = Array.from({ length: servers }, (_, index) => recordOf(`server${index}`, tools));
  const secrets = createSecretSource({ mode: 'user_owned', names: [], paths: [], backendKeyNames: [] }, {});
  const pool = new McpPool({ stateDir: folder, path: process.env.PATH ?? '' }, { secrets });
  const audit = openAuditLog({ path: join(folder, 'audit.jsonl') });
  const registry = new StaticRegistry(records);
  const ids = records.map(({ server_id }) => server_id);
  const guest = new GuestMcp({ pool, registry, audit: audit.forTask('bench'), events: new ToolEvents() }, 'bench', {
    enabled: true,
    defaultServerIds: ids,
    serverTags: null,
    profile: null,
    toolSearch: noToolSearch,
    allowedServerIds: ids,
    toolAllowlist: null,
    toolDenylist: [],
    resourceLists: noLists,
    promptLists: noLists,
    resourceTools: false,
    toolNaming: 'encoded',
  });
  return {
    guest,
    close: async () => {
      guest.close();
      await pool.close();
      await audit.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function recordOf(id: string, tools: number): McpServerRecord {
  const stdio = { command: process.execPath, args: [server, String(tools)] };
  const parsed = parseRecord({ server_id: id, transport: 'stdio', stdio, allowed_tools: ['*'] }, { strict: true });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.issues));
  return parsed.record;
}
