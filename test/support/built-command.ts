import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const file = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** The file that starts a command as it is installed: bundled, it starts several times sooner than from its sources. */
export function builtCommand(name: 'spear' | 'spear-run' | 'spear-sms' | 'spearlet'): string {
  if (!existsSync(file(`dist/${name}.cjs`))) throw new Error('dist/ is missing: run npm run build first');
  return file(`bin/${name}.cjs`);
}
