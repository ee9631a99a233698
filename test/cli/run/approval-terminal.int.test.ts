import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { OnTerminal } from '../../support/on-terminal.ts';

const sample = fileURLToPath(new URL('./terminal-sample.ts', import.meta.url));

it('gives keys to the prompt while there is one, and lines to the guest otherwise', async () => {
  const run = new OnTerminal([process.execPath, sample]);
  await run.shows('guest reads');
  run.press('a line\n');
  await run.shows('guest got "a line\\n"');
  await run.shows('prompt true');
  run.press('y');
  await run.shows('prompt got "y"');
  await run.shows('prompt true', 2);
  run.press('s');
  await run.shows('prompt got "s" while the guest reads');
  await run.shows('guest reads on');
  run.press('another\n');
  await run.shows('guest got "another\\n"');
  await run.shows('prompt true', 3);
  run.press('n');
  expect(await run.finished()).toMatchObject({ code: 0, restored: true });
  expect(run.screen).toContain('prompt got "n" after the guest');
});
