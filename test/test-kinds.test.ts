import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { kinds } from './support/test-kinds.ts';

const { scripts } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  scripts: Record<string, string>;
};

const projectsOf = (script: string) =>
  [...(scripts[script] ?? '').matchAll(/--project (\S+)/g)].map(([, name = '']) => name);

it('runs every kind of test in exactly one of npm test and npm run test:all', () => {
  const run = [...projectsOf('test'), ...projectsOf('test:all')];
  expect(run.toSorted()).toEqual(kinds.map(({ name }) => name).toSorted());
});
