// An MCP server with as many tools as its argument says, described the way real servers describe theirs.
import { serve, text } from '../../fixtures/mcp-servers/raw-rpc.mjs';

const [count = '50'] = process.argv.slice(2);

const schema = (index) => ({
  type: 'object',
  properties: {
    path: { type: 'string', description: 'Path of the file, relative to the root of the workspace' },
    encoding: { type: 'string', enum: ['utf8', 'latin1', 'base64'], default: 'utf8' },
    limit: { type: 'integer', minimum: 1, maximum: 10_000, description: 'How many lines at most' },
    options: { type: 'object', properties: { recursive: { type: 'boolean' }, depth: { type: 'integer' } } },
    [`extra_${index}`]: { type: 'array', items: { type: 'string' } },
  },
  required: ['path'],
  additionalProperties: false,
});

serve(
  Object.fromEntries(
    Array.from({ length: Number(count) }, (_, index) => [
      `tool_number_${index}`,
      {
        description: `Does the work number ${index} on a file of the workspace and says what it found there.`,
        schema: schema(index),
        call: ({ path }) => text(String(path)),
      },
    ]),
  ),
);
