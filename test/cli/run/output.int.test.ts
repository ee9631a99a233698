import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const sample = fileURLToPath(new URL('./output-sample.ts', import.meta.url));

it('what is said to a terminal is spelled out, and nothing is written while a question is open', () => {
  const { stderr } = spawnSync(process.execPath, [sample], { encoding: 'utf8' });
  const lines = stderr.trimEnd().split('\n');
  expect(lines.slice(0, 7)).toEqual([
    'spear-run: before \\u{1b}[2J\\u{202e}evil',
    'm | a line in \\u{1b}pieces',
    'the question',
    'm | its end',
    'spear-run: said during the question',
    'line 0',
    'of two \\u{7}',
  ]);
  expect(lines.slice(-6)).toEqual([
    'spear-run: 7 more lines were dropped while a prompt was open',
    'printed during the question',
    'spear-run: and taken afterwards',
    'm | interrupted',
    'spear-run: after',
    'm | spear-run: not the host',
  ]);
  expect(stderr).not.toContain('\u001b');
});
