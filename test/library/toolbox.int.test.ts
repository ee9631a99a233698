import { execFile } from 'node:child_process';
import { realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { ConfigError, McpToolbox } from '../../src/index.ts';
import { folder, tiny } from './fixtures.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

it('finds the command of a server that is installed beside the program [toolbox.commands]', async () => {
  const at = realpathSync(folder({ 'todo.md': 'buy milk' }));
  const program = `
import { McpToolbox } from ${JSON.stringify(join(root, 'src/index.ts'))};
const transport = { kind: 'stdio', command: 'mcp-server-filesystem', args: [${JSON.stringify(at)}] };
await using toolbox = new McpToolbox({ servers: [{ name: 'notes', transport }] });
await toolbox.connect();
const { value } = await toolbox.tool('notes_read_text_file').call({ path: ${JSON.stringify(join(at, 'todo.md'))} });
console.log(value.content[0].text);
`;
  const file = join(at, 'program.mjs');
  writeFileSync(file, program);
  // Started as any program is: nothing put node_modules/.bin on its PATH, but the interpreter that servers name is there.
  const env = { PATH: `${join(process.execPath, '..')}:/usr/bin:/bin`, HOME: at };
  const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: join(root, 'test'), env });
  expect(stdout).toBe('buy milk\n');
});

it('refuses options that it does not know [library.strict]', () => {
  expect(() => new McpToolbox({ servers: [tiny()], stateDirectory: 'x' } as never)).toThrow(ConfigError);
  expect(() => new McpToolbox({ servers: [{ ...tiny(), disabled: [] } as never] })).toThrow(
    'the server "tiny" cannot be used: unknown key "disabled", did you mean "disabledTools"?',
  );
});
