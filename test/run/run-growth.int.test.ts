import { expect, it } from 'vitest';
import { runFixture } from '../support/run-fixture.ts';

const script = { backend: 'scripts/test/probe.json' };

it.each([
  ['callback', ['arguments kept: yes', 'answer: the tool answered, length agrees: yes']],
  ['arena', ['arguments kept: yes', 'answer: the tool answered, length agrees: yes']],
  [
    'nested',
    ['log 0', 'one byte further -14', 'inside: an answer without tools, length agrees: yes', 'arguments kept: yes'],
  ],
  [
    'epoll',
    ['arguments kept: yes', 'events 1, bytes 8, the response', 'answer: the tool answered, length agrees: yes'],
  ],
  ['recv', ['answer: an answer without tools, length agrees: yes']],
])('a guest in C whose memory grows (%s) continues with its stack intact', async (mode, lines) => {
  const run = await runFixture('c/test/grow.wasm', { ...script, args: [mode] });
  expect(run.stderr).toBe('');
  for (const line of [...lines, 'stack intact: yes, grown yes']) expect(run.stdout.split('\n')).toContain(line);
  expect(run).toMatchObject({ reason: 'exit', exitCode: 0 });
});

it('a guest in C logs from the last bytes of pages that it has just got', async () => {
  const run = await runFixture('c/test/grow.wasm', { ...script, args: ['log'] });
  expect(run.stdout).toBe('from the last bytes of memory\nlog 0\none byte further -14\n');
});
