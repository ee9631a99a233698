// Everything an agent does: a chat with a tool of its own and tools of an MCP server, a direct call, two calls side by side, and
// a call that policy refuses. The same program exists in every language.
import { byteLength, Chat, Mcp, say, task } from './spear.js';

const integers = (...names) => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, { type: 'integer' }])),
  required: names,
});
const note = (path) => ({ path });
const textOf = (result) => result.content[0].text;

export const run = task(() => {
  const chat = new Chat();
  const definition = { name: 'add', description: 'Adds two whole numbers.', parameters: integers('a', 'b') };
  chat.tool(definition, ({ a, b }) => String(a + b));
  chat.say('user', 'How many notes are there, and what is 20 + 22?');
  say.info(`answer: ${chat.send()}`);

  const files = new Mcp('files');
  say.info(`direct: ${textOf(files.call('read_text_file', note('risks.md'))).split('\n')[0]}`);
  const calls = ['roadmap.md', 'minutes-2026-10-05.md'].map((name) => files.submit('read_text_file', note(name)));
  say.info(`parallel: ${calls.map((call) => byteLength(textOf(call.result()))).join(' ')}`);
  say.info(`refused: ${files.call('write_file', { ...note('new.md'), content: 'mine' }).error.code}`);
});
