import type { CompiledHostConfig } from '../config/host/host-config.ts';
import type { McpNodeOptions } from './open-mcp.ts';

/** What the host's config says of MCP, as options. */
export function nodeOptions({ mcp, egress, keyVariables }: CompiledHostConfig): McpNodeOptions {
  const { allowHosts, allowAddresses } = egress;
  return {
    allowEnv: mcp.allowEnv,
    allowFiles: mcp.allowFiles,
    maxStalenessMs: mcp.maxStalenessMs,
    firstSnapshotMs: mcp.firstSnapshotMs,
    approvalRules: mcp.approvalRules as NonNullable<McpNodeOptions['approvalRules']>,
    keyVariables,
    stdio: mcp.stdio,
    egress: { ...(allowHosts === null ? {} : { allowHosts }), ...(allowAddresses === null ? {} : { allowAddresses }) },
  };
}
