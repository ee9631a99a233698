import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, type RunnerTask } from 'vitest';
import { coreTests, notApplicable, sharedTests } from '../component-parity.ts';
import { findTests, idsOf } from '../requirement-coverage.ts';
import { type GuestBinding, useBinding } from './guest-binding.ts';

const folder = fileURLToPath(new URL('..', import.meta.url));

/** Runs the tests that core modules pass with components of one lane, and looks whether anything was left out. */
export function runSharedTests(binding: 'fast lane' | 'glue'): void {
  runWith(binding);

  it('every requirement that core guests verify is verified, or listed as not applicable [component.parity]', ({
    task,
  }) => {
    const verified = new Set([
      ...idsInRun(task.file.tasks),
      ...idsInFiles(/^runtime\/(?:guest|wasm)\/component\/.*\.test\.ts$/),
    ]);
    const shared = Object.keys(sharedTests).map((file) => new RegExp(`^${file}(?:\\.\\w+)?\\.test\\.ts$`));
    const required = idsInFiles(...coreTests, ...shared);
    const missing = required.filter((id) => !verified.has(id) && !Object.hasOwn(notApplicable, id));
    expect(missing).toEqual([]);
    const listedInVain = Object.keys(notApplicable).filter((id) => verified.has(id) || !required.includes(id));
    expect(listedInVain).toEqual([]);
  });
}

/** Runs the same tests with guests that are bound otherwise. */
export function runWith(binding: Exclude<GuestBinding, 'core'>): void {
  useBinding(binding);
  for (const [file, load] of Object.entries(sharedTests)) {
    describe(file, async () => {
      await load();
    });
  }
}

function idsInRun(tasks: readonly RunnerTask[]): string[] {
  return tasks.flatMap((task) => ('tasks' in task ? idsInRun(task.tasks) : idsOf(task.name)));
}

function idsInFiles(...patterns: readonly RegExp[]): string[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) =>
    patterns.some((pattern) => pattern.test(path)),
  );
  return [
    ...new Set(
      files.flatMap((path) => findTests(path, readFileSync(`${folder}/${path}`, 'utf8')).flatMap(({ ids }) => ids)),
    ),
  ];
}
