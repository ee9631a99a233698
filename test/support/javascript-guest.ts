import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { toolchains } from '../../scripts/wasm-toolchains.ts';

const sdk = fileURLToPath(new URL('../../guest-examples/javascript/spear.js', import.meta.url));

/**
 * Builds guests in JavaScript beside a copy of spear.js. They are not kept in fixtures/: each would be a megabyte.
 * Fails with what the compiler said.
 */
export function useJavaScriptGuests(): (source: string) => Promise<Uint8Array> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-javascript-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  copyFileSync(sdk, join(folder, 'spear.js'));
  let built = 0;
  return async (source) => {
    const compile = await toolchains.javascript.find();
    if (!compile) throw new Error(`${toolchains.javascript.title} is missing: ${toolchains.javascript.install}`);
    const file = join(folder, `guest-${++built}`);
    writeFileSync(`${file}.js`, source);
    await compile(`${file}.js`, `${file}.wasm`, 'component');
    return readFileSync(`${file}.wasm`);
  };
}
