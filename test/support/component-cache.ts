import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { compileLimits } from '../../src/runtime/port/limits.ts';
import { prepare } from '../../src/runtime/wasm/prepare.ts';

/**
 * A cache for the components of one test file. What was compiled into it starts like a core module, so that a deadline
 * can be about the guest alone.
 */
export function useComponentCache(): { directory: string; compiled: (wasm: Uint8Array) => Promise<Uint8Array> } {
  const directory = mkdtempSync(join(tmpdir(), 'spear-components-'));
  afterAll(() => rmSync(directory, { recursive: true }));
  return {
    directory,
    async compiled(wasm) {
      await prepare(wasm, { limits: compileLimits({}), allowUnknownImports: false, componentCache: directory });
      return wasm;
    },
  };
}
