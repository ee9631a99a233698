import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readPage, root } from './pages.ts';

const { text: reference } = readPage('docs/commands.md');
const pages = readdirSync(join(root, 'src/console'), { recursive: true, encoding: 'utf8' }).filter((path) =>
  path.endsWith('.tsx'),
);
const commands = pages.flatMap((path) =>
  [...readFileSync(join(root, 'src/console', path), 'utf8').matchAll(/<code>(spear[^<{]*)<\/code>/g)].map(
    ([, command = '']) => command,
  ),
);

/** Help of a command, which is named by its words before the first argument; undefined: there is no such command. */
function helpOf(command: string): string | undefined {
  const [path = ''] = /^[a-z-]+(?: [a-z][a-z-]*)*/.exec(command) ?? [];
  const start = reference.search(new RegExp(`^Usage:\\n {2}${path}(?: |$)`, 'm'));
  return start < 0 ? undefined : reference.slice(start).split(/^```$/m)[0];
}

describe('commands that the console names', () => {
  it('are found', () => expect(commands.length).toBeGreaterThan(5));

  it.each([...new Set(commands)])('%s exists with its flags', (command) => {
    const help = helpOf(command);
    expect(help).toBeDefined();
    for (const [flag] of command.matchAll(/--[a-z-]+/g)) expect(help).toContain(flag);
  });
});
