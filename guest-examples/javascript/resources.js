// What an MCP server has besides tools, without a model: reads a resource, gets a prompt, and prints both. The same program
// exists in every language.
import { Mcp, say, task } from './spear.js';

const URI = 'demo://resource/static/document/features.md';

export const run = task(() => {
  const server = new Mcp('everything');
  const { resources, templates } = server.resources();
  const counts = [`${resources.length} resources`, `${templates.length} templates`];
  say.info(`everything has ${counts.join(', ')} and ${server.prompts().length} prompts for this guest`);
  say.info(`${URI}: ${server.read(URI).contents[0].text.split('\n')[0]}`);
  say.info(`args-prompt: ${server.prompt('args-prompt', { city: 'Bern' }).messages[0].content.text}`);
  server.close();
});
