import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { dispatchTests, onlyLegacy, poolTests, testedOnce } from '../../../era-parity.ts';
import { runInNewEra } from '../../../support/era-tests.ts';

runInNewEra(poolTests);

const folder = fileURLToPath(new URL('../../..', import.meta.url));
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) =>
  /^agent\/(?:mcp|policy|approvals(?!\/service))\/.*\.test\.ts$/.test(path),
);

it('every test of the pool, of calls and of policy is run in both eras, or is listed with a reason [pool.eras.parity]', () => {
  const names = Object.keys({ ...poolTests, ...dispatchTests });
  const both = files.filter((path) => names.includes(path.replace(/\.\w+\.test\.ts$/, '')));
  const once = Object.keys(testedOnce);
  const isOnce = (path: string) => once.some((beginning) => path.startsWith(beginning));
  expect(files.filter((path) => both.includes(path) === isOnce(path))).toEqual([]);
  expect(both).toHaveLength(names.length);
  expect(once.filter((beginning) => !files.some((path) => path.startsWith(beginning)))).toEqual([]);
});

it('what is said of the old era alone is asked for by a test [pool.eras.parity]', () => {
  const sources = files.map((path) => readFileSync(`${folder}/${path}`, 'utf8')).join('\n');
  expect(Object.keys(onlyLegacy).filter((trait) => !sources.includes(`eraHas('${trait}')`))).toEqual([]);
});
