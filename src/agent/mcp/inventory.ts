const MAX_DESCRIPTION = 200;
const MAX_INSTRUCTIONS = 500;

export interface InventoryTool {
  readonly serverId: string;
  readonly serverName: string;
  readonly name: string;
  readonly description: string;
}

/**
 * The system message that tells a model what it has. Descriptions and instructions come from the servers: they are cut
 * and put on one line, so that none of them can pass for a part of the prompt, and instructions, which are written to be
 * followed, are said to be nobody's orders.
 */
export function renderInventory(
  template: true | string,
  tools: readonly InventoryTool[],
  instructions: ReadonlyMap<string, string>,
): string {
  const listed = byServer(tools, instructions);
  if (template === true) return `The following external tools are available via MCP:\n\n${listed}`;
  const values: Record<string, string> = {
    server_names: [...new Set(tools.map(({ serverName }) => plain(serverName)))].join(', '),
    tool_count: String(tools.length),
    tools_by_server: listed,
  };
  // Unknown placeholders were refused when the parameter was set.
  return template.replaceAll(/\$\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole);
}

function byServer(tools: readonly InventoryTool[], instructions: ReadonlyMap<string, string>): string {
  const servers = Map.groupBy(tools, ({ serverId }) => serverId);
  const parts = [...servers].map(([serverId, own]) => {
    const said = plain(instructions.get(serverId) ?? '', MAX_INSTRUCTIONS);
    const about =
      said === '' ? [] : [`(untrusted: what this server says about itself: "${said.replaceAll('"', "'")}")`, ''];
    const lines = own.map(({ name, description }) => {
      const text = plain(description);
      return `- \`${name}\`${text && ` - ${text}`}`;
    });
    return [`### ${plain(own[0]?.serverName ?? '')}`, '', ...about, ...lines].join('\n');
  });
  return parts.join('\n\n');
}

function plain(text: string, maxCharacters = MAX_DESCRIPTION): string {
  const line = text
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .replaceAll('`', "'")
    .trim();
  // Characters are counted, not units: so it is promised, and the ellipsis is one of them.
  const characters = [...line];
  return characters.length > maxCharacters ? `${characters.slice(0, maxCharacters - 1).join('')}…` : line;
}
