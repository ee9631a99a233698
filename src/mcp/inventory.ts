const MAX_DESCRIPTION = 200;

export interface InventoryTool {
  readonly serverId: string;
  readonly serverName: string;
  readonly name: string;
  readonly description: string;
}

/**
 * The system message that tells a model what it has. Descriptions come from the servers: they are cut and put on one
 * line, so that none of them can pass for a part of the prompt.
 */
export function renderInventory(template: true | string, tools: readonly InventoryTool[]): string {
  if (template === true) return `The following external tools are available via MCP:\n\n${byServer(tools)}`;
  const values: Record<string, string> = {
    server_names: [...new Set(tools.map(({ serverName }) => plain(serverName)))].join(', '),
    tool_count: String(tools.length),
    tools_by_server: byServer(tools),
  };
  // Unknown placeholders were refused when the parameter was set.
  return template.replaceAll(/\$\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole);
}

function byServer(tools: readonly InventoryTool[]): string {
  const servers = Map.groupBy(tools, ({ serverId }) => serverId);
  const parts = [...servers.values()].map((own) => {
    const lines = own.map(({ name, description }) => {
      const about = plain(description);
      return `- \`${name}\`${about && ` - ${about}`}`;
    });
    return [`### ${plain(own[0]?.serverName ?? '')}`, '', ...lines].join('\n');
  });
  return parts.join('\n\n');
}

function plain(text: string): string {
  const line = text
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .replaceAll('`', "'")
    .trim();
  // Characters are counted, not units: so it is promised, and the ellipsis is one of them.
  const characters = [...line];
  return characters.length > MAX_DESCRIPTION ? `${characters.slice(0, MAX_DESCRIPTION - 1).join('')}…` : line;
}
