// Writes what is made from tables of the code: the marked parts of the pages in docs/ and of the guest SDKs.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { auditHelp } from '../src/cli/audit/help.ts';
import { doctorHelp, explainHelp } from '../src/cli/doctor/help.ts';
import { journalHelp, replayHelp } from '../src/cli/journal/help.ts';
import { runCommandHelp, runsHelp, tasksHelp } from '../src/cli/node/help.ts';
import { runHelp } from '../src/cli/run/help.ts';
import { smsHelp } from '../src/cli/sms/help.ts';
import { spearHelp } from '../src/cli/spear/help.ts';
import { spearletHelp } from '../src/cli/spearlet/help.ts';
import { testHelp } from '../src/cli/test/help.ts';
import { abiCalls, abiConventions, errnoTable, featureList } from './abi-page.ts';
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

const asText = (help: string): string => `\`\`\`text\n${help.trimEnd()}\n\`\`\``;

/** What stands between the marks of each page. */
const parts: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  'docs/abi.md': { conventions: abiConventions, calls: abiCalls, features: featureList, errnos: errnoTable },
  'docs/commands.md': {
    'run-help': () => asText(runHelp),
    'sms-help': () => asText(smsHelp),
    'spearlet-help': () => asText(spearletHelp),
    'tasks-help': () => asText(tasksHelp),
    'run-command-help': () => asText(runCommandHelp),
    'runs-help': () => asText(runsHelp),
    'spear-help': () => asText(spearHelp),
    'doctor-help': () => asText(doctorHelp),
    'explain-help': () => asText(explainHelp),
    'replay-help': () => asText(replayHelp),
    'journal-help': () => asText(journalHelp),
    'test-help': () => asText(testHelp),
    'audit-help': () => asText(auditHelp),
  },
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
