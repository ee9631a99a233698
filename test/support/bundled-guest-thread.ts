import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** Starts the guest's thread. */
const STARTER = join(root, 'src/runtime/host/guest-worker.ts');
/** Always the same place: what vitest keeps of a run holds its address, and the next run writes it anew. */
const BUNDLE = join(root, 'node_modules/.cache/spear/guest-worker.cjs');
/** How it names what the thread runs: the source beside a source, the bundle beside a bundle. */
const CHOICE = /new URL\(\s*import\.meta\.url\.endsWith\('\.ts'\)[^)]*\)/;

/**
 * A plugin of Vite that lets the guest's thread run a bundle of the sources as they are now. From the sources each
 * thread would load its files one by one and strip their types again, which is most of what a short run costs.
 */
export async function bundledGuestThread() {
  const bundle = await rolldown({
    cwd: root,
    input: join(root, 'src/runtime/guest/worker.ts'),
    platform: 'node',
    external: [/^node:/],
  });
  const fresh = `${BUNDLE}.${process.pid}`;
  await bundle.write({ file: fresh, format: 'cjs', codeSplitting: false });
  await bundle.close();
  renameSync(fresh, BUNDLE);
  const url = `new URL(${JSON.stringify(pathToFileURL(BUNDLE).href)})`;
  return {
    name: 'bundled-guest-thread',
    enforce: 'pre' as const,
    transform(code: string, id: string) {
      if (id !== STARTER) return null;
      if (!CHOICE.test(code))
        throw new Error(`${id} names its thread in a way that ${import.meta.filename} does not know`);
      return { code: code.replace(CHOICE, url), map: null };
    },
  };
}
