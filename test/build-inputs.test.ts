import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { inputHash, isBuildCurrent, recordInputs } from '../scripts/build-inputs.ts';

let root: string;

const FILES = [
  'src/index.ts',
  'scripts/build.ts',
  'scripts/build-console.ts',
  'scripts/reachable-types.ts',
  'scripts/third-party.ts',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'spear-build-'));
  for (const folder of ['src', 'scripts', 'dist']) mkdirSync(join(root, folder));
  for (const file of FILES) writeFileSync(join(root, file), file);
});

afterEach(() => rmSync(root, { recursive: true, force: true }));

it('has nothing to reuse before the first build', () => {
  expect(isBuildCurrent(root)).toBe(false);
});

it('reuses dist/ while no input changed, and not after any of them changed', () => {
  recordInputs(root, inputHash(root));
  expect(isBuildCurrent(root)).toBe(true);
  for (const file of FILES) {
    writeFileSync(join(root, file), 'changed');
    expect(isBuildCurrent(root), file).toBe(false);
    writeFileSync(join(root, file), file);
  }
  expect(isBuildCurrent(root)).toBe(true);
});

it('does not reuse dist/ after a file was added to src/, removed or renamed', () => {
  recordInputs(root, inputHash(root));
  writeFileSync(join(root, 'src/more.ts'), '');
  expect(isBuildCurrent(root)).toBe(false);
  rmSync(join(root, 'src/more.ts'));
  rmSync(join(root, 'src/index.ts'));
  writeFileSync(join(root, 'src/other.ts'), 'src/index.ts');
  expect(isBuildCurrent(root)).toBe(false);
});
