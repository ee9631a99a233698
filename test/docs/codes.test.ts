import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { ExclusionReason } from '../../src/policy/decision.ts';
import { taskPolicyKeys } from '../../src/policy/task-policy.ts';
import { parseRecord } from '../../src/protocol/record-parse.ts';
import { codesIn, prose, readPage, root, tableBelow } from './pages.ts';

/** The text of all files in a folder of src/. */
function sourceOf(folder: string): string {
  const path = join(root, 'src', folder);
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(join(path, file), 'utf8'))
    .join('\n');
}

const found = (text: string, pattern: RegExp): string[] =>
  [...new Set([...text.matchAll(pattern)].map(([, name = '']) => name))].sort();

/** What stands in backticks in one column of the table below a heading. */
function documented(path: string, heading: string, column = 0): string[] {
  const rows = tableBelow(readPage(path), heading);
  return [...new Set(rows.flatMap((row) => codesIn(row[column] ?? '')))].sort();
}

const chat = sourceOf('chat');

it('docs/abi.md has every code of an error body, and no other', () => {
  const thrown = found(chat, /(?:BackendError|errorBody|#error)\(\s*'(\w+)'/g);
  const byStatus = found(chat, /\[\d{3}, '(\w+)'\]/g);
  const fallback = found(chat, /\?\? '(\w+_error)'/g);
  expect(documented('docs/abi.md', '### Error bodies')).toEqual(
    [...new Set([...thrown, ...byStatus, ...fallback])].sort(),
  );
});

it('docs/abi.md has every code that a model reads about a tool of the guest', () => {
  expect(documented('docs/abi.md', '### Tool messages')).toEqual(found(chat, /toolError\(\s*'(\w+)'/g));
});

it('docs/registry-protocol.md has every kind of problem, and no other', () => {
  const http = sourceOf('sms/http') + sourceOf('sms/runs');
  const kinds = [...found(http, /HttpProblem\(\s*\d+,\s*'([\w-]+)'/g), ...found(http, /: \[\d{3}, '([\w-]+)'\]/g)];
  expect(documented('docs/registry-protocol.md', '### Problem types', 1)).toEqual([...new Set(kinds)].sort());
});

it('docs/registry-protocol.md has every path of the HTTP side', () => {
  const page = readPage('docs/registry-protocol.md').text;
  const http = sourceOf('sms/http').replaceAll(/\$\{ADMIN_PATH\}|\$\{servers\}/g, '');
  for (const path of found(http, /path: [`'](\/[^`']+)[`']/g)) expect(page).toContain(path);
});

/** By their type, so that none is left out. */
const reasons: Readonly<Record<ExclusionReason, true>> = {
  disabled: true,
  registry_not_ready: true,
  stale_registry: true,
  unknown_server: true,
  not_in_namespace: true,
  not_allowed: true,
  not_requested: true,
  not_tagged: true,
  unknown_profile: true,
  not_in_profile: true,
  deny_all: true,
  denied_by_registry: true,
  pin_mismatch: true,
  denied_by_profile: true,
  denied_by_task: true,
  denied_by_session: true,
  env_missing: true,
  env_refused: true,
  list_failed: true,
  list_timeout: true,
  name_collision: true,
  schema_invalid: true,
};

it('docs/troubleshooting.md has every reason of an exclusion', () => {
  expect(documented('docs/troubleshooting.md', '## Exclusion reasons')).toEqual(Object.keys(reasons).sort());
});

it('docs/mcp.md has every key of a task', () => {
  expect(documented('docs/mcp.md', '## Task configuration')).toEqual([...taskPolicyKeys].sort());
});

it('docs/mcp.md has every field of a record', () => {
  const parsed = parseRecord({ server_id: 'a', transport: 'stdio', stdio: { command: 'b' } }, { strict: true });
  if (!parsed.ok) throw new Error('the smallest record is not valid');
  const stamps = ['updated_at_ms', 'mod_revision'];
  const fields = Object.keys(parsed.record).filter((field) => !stamps.includes(field));
  expect(documented('docs/mcp.md', '## Server configuration')).toEqual([...fields, 'version'].sort());
});

it('docs/metrics.md has every instrument, and no other', () => {
  const source = sourceOf('metrics') + sourceOf('sms/metrics') + sourceOf('run');
  const named = found(source, /'((?:mcp|spear)_[a-z_]+)',/g);
  const gauges = found(sourceOf('sms/metrics'), /^ {2}(\w+): '[A-Z]/gm).map((name) => `spear_sms_${name}`);
  const page = prose(readPage('docs/metrics.md'));
  const listed = [...new Set(codesIn(page).filter((name) => /^(?:mcp|spear)_[a-z_]+$/.test(name)))];
  expect(listed.sort()).toEqual([...new Set([...named, ...gauges])].sort());
});
