import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

/** Every module that loading `entry` loads; type imports are gone by then. */
function loadedFrom(entry: URL, loaded = new Set<string>()): Set<string> {
  if (loaded.has(entry.href)) return loaded;
  loaded.add(entry.href);
  const source = readFileSync(entry, 'utf8');
  for (const match of source.matchAll(/^(?:import|export) (?!type )[^;]*?from '([^']+)';/gm)) {
    const specifier = match[1] as string;
    if (specifier.startsWith('.')) loadedFrom(new URL(specifier, entry), loaded);
    else loaded.add(specifier);
  }
  return loaded;
}

it('session parameters are checked in the guest thread without loading a library', () => {
  const loaded = [...loadedFrom(new URL('../../../src/runtime/port/mcp-params.ts', import.meta.url))];
  expect(loaded.some((module) => module.endsWith('/policy-layers.ts'))).toBe(true);
  expect(loaded.filter((module) => !module.startsWith('file:'))).toEqual([]);
});

it('no part of policy loads the schema library', () => {
  for (const name of ['effective-set', 'walk', 'task-policy', 'definition-hash']) {
    const loaded = loadedFrom(new URL(`../../../src/agent/policy/${name}.ts`, import.meta.url));
    expect(loaded.has('zod')).toBe(false);
  }
});
