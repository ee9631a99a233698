import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { testsOf } from '../scripts/tests-of.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

it('finds the tests that are named after a source, whatever their tier', () => {
  expect(testsOf(root, 'chat/tool-loop')[0]).toBe('test/agent/chat/tool-loop.int.test.ts');
  expect(testsOf(root, 'src/agent/chat/tool-loop.ts')).toEqual(testsOf(root, 'chat/tool-loop'));
});

it('finds the tests that import a source of another name', () => {
  const found = testsOf(root, 'policy/walk');
  expect(found.length).toBeGreaterThan(0);
  for (const path of found) expect(path).toMatch(/^test\/.*\.test\.ts$/);
});

it('finds nothing for a source that does not exist', () => {
  expect(testsOf(root, 'chat/no-such-file')).toEqual([]);
});
