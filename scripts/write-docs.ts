// Writes what is generated from tables of the code: marked parts of the pages in docs/ and of the guest SDKs, and the schema
// of the audit log.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { abiCalls, abiConventions, errnoTable, featureList } from './abi-page.ts';
import { auditSchema } from './audit-schema.ts';
import { commandParts } from './command-reference.ts';
import { assemblyScriptCalls, assemblyScriptComponentCalls, cComponentCalls, fillSource } from './component-sdk.ts';
import { errorParts } from './error-catalogue.ts';
import { fill } from './markdown.ts';
import {
  backendLimitsTable,
  budgetsTable,
  limitsTable,
  nodeLimitsTable,
  poolLimitsTable,
  sessionParamsTable,
  smsLimitsTable,
  telemetryLimitsTable,
} from './reference-tables.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

export interface Page {
  /** Relative to the root. */
  readonly path: string;
  readonly text: string;
}

/** What stands between the marks of each page. */
const parts: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  'docs/abi.md': { conventions: abiConventions, calls: abiCalls, features: featureList, errnos: errnoTable },
  'docs/commands.md': commandParts,
  'docs/configuration.md': {
    limits: limitsTable,
    'backend-limits': backendLimitsTable,
    'session-parameters': sessionParamsTable,
  },
  'docs/errors.md': errorParts,
  'docs/mcp.md': { budgets: budgetsTable, 'pool-limits': poolLimitsTable },
  'docs/node.md': { 'node-limits': nodeLimitsTable },
  'docs/registry.md': { 'sms-limits': smsLimitsTable },
  'docs/telemetry.md': { 'telemetry-limits': telemetryLimitsTable },
};

/** Every generated page as it should be. */
export function generatedPages(): Page[] {
  const pages = Object.entries(parts).map(([path, contents]) => ({
    path,
    text: Object.entries(contents).reduce(
      (page, [name, content]) => fill(page, name, content()),
      readFileSync(join(root, path), 'utf8'),
    ),
  }));
  return [
    ...pages,
    { path: 'src/generated/audit.schema.json', text: auditSchema() },
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
