// Writes the pages that are made from tables of the code: wit/ABI.md, and the marked parts of README.md.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runHelp } from '../src/cli/run-help.ts';
import { abiPage } from './abi-page.ts';
import { fill } from './markdown.ts';
import { backendLimitsTable, limitsTable, sessionParamsTable } from './reference-tables.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

export interface Page {
  /** Relative to the root. */
  readonly path: string;
  readonly text: string;
}

/** Every generated page as it should be. */
export function generatedPages(): Page[] {
  const parts = {
    help: `\`\`\`text\n${runHelp.trimEnd()}\n\`\`\``,
    limits: limitsTable(),
    'backend-limits': backendLimitsTable(),
    'session-parameters': sessionParamsTable(),
  };
  const readme = Object.entries(parts).reduce(
    (page, [name, content]) => fill(page, name, content),
    readFileSync(join(root, 'README.md'), 'utf8'),
  );
  return [
    { path: 'wit/ABI.md', text: abiPage() },
    { path: 'README.md', text: readme },
  ];
}

if (import.meta.main) {
  for (const { path, text } of generatedPages()) writeFileSync(join(root, path), text);
}
