// The client that the conformance suite starts: `node test/conformance/client.ts URL`, through our own pool.
import { McpToolbox, type ToolboxTool } from '../../src/index.ts';

interface ScenarioContext {
  readonly toolCalls?: readonly { readonly name: string; readonly arguments: Record<string, unknown> }[];
}

const url = process.argv.at(-1) ?? '';
const context: ScenarioContext = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
await using toolbox = new McpToolbox({
  servers: [
    { name: 'peer', transport: { kind: 'streamable_http', url }, clientFeatures: { elicitation: ['form', 'url'] } },
  ],
  // Somebody who agrees to whatever a form suggests.
  elicit: () => ({ action: 'accept', content: {} }),
});
await toolbox.connect();
const tools = toolbox.tools();
for (const tool of tools) {
  const wanted = context.toolCalls?.filter(({ name }) => name === tool.tool).map((call) => call.arguments);
  for (const args of wanted ?? [argumentsOf(tool)]) {
    const result = await tool.call(args);
    process.stderr.write(`${tool.tool}: ${result.message}\n`);
  }
}

/** Scenarios that do not say what they want to be called with describe it in words. */
function argumentsOf({ tool }: ToolboxTool): Record<string, unknown> {
  if (tool === 'add_numbers') return { a: 5, b: 3 };
  if (tool === 'valid_tool') return { region: 'us-west1' };
  if (tool === 'json_schema_echo') {
    return { schema: tools.find(({ tool: name }) => name === 'json_schema_2020_12_tool')?.inputSchema };
  }
  return {};
}
