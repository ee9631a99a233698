// Writes what is made from tables of the code: wit/ABI.md, and the marked parts of README.md and of the guest SDKs.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runHelp } from '../src/cli/run/help.ts';
import { abiPage } from './abi-page.ts';
import { assemblyScriptCalls, assemblyScriptComponentCalls, cComponentCalls, fillSource } from './component-sdk.ts';
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
    sdkPart('c/spear-component.h', cComponentCalls()),
    sdkPart('assemblyscript/spear.ts', assemblyScriptCalls()),
    sdkPart('assemblyscript/spear-component.ts', assemblyScriptComponentCalls()),
  ];
}

function sdkPart(file: string, content: string): Page {
  const path = `guest-examples/${file}`;
  return { path, text: fillSource(readFileSync(join(root, path), 'utf8'), content) };
}

if (import.meta.main) {
  for (const { path, text } of generatedPages()) writeFileSync(join(root, path), text);
}
