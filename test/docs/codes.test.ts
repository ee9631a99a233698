import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import {
  errnos,
  exclusions,
  guestToolErrors,
  problems,
  sendErrors,
  toolErrors,
} from '../../scripts/error-catalogue.ts';
import { taskPolicyKeys } from '../../src/agent/policy/task-policy.ts';
import { calls } from '../../src/runtime/abi/calls.ts';
import { errnoNames } from '../../src/runtime/abi/errno.ts';
import { parseRecord } from '../../src/server/records/server.ts';
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

const chat = sourceOf('agent/chat');
const registryMetrics = readFileSync(join(root, 'src/registry/registry-metrics.ts'), 'utf8');

it('the error catalogue has every code of an error body, and no other', () => {
  const thrown = found(chat, /(?:BackendError|errorBody|#error)\(\s*'(\w+)'/g);
  const byStatus = found(chat, /\[\d{3}, '(\w+)'\]/g);
  const fallback = found(chat, /\?\? '(\w+_error)'/g);
  expect(Object.keys(sendErrors).sort()).toEqual([...new Set([...thrown, ...byStatus, ...fallback])].sort());
});

it('the error catalogue has every code that a model reads about a tool of the guest, and no other', () => {
  expect(Object.keys(guestToolErrors).sort()).toEqual(found(chat, /toolError\(\s*'(\w+)'/g));
});

it('the error catalogue has every problem type of registry and node with its status, and no other', () => {
  const http = ['server/http', 'server/routes', 'registry/routes', 'registry/runs', 'node/http']
    .map(sourceOf)
    .join('\n');
  const thrown = [/HttpProblem\(\s*(\d+),\s*'([\w-]+)'/g, /: \[(\d{3}), '([\w-]+)'\]/g].flatMap((pattern) =>
    [...http.matchAll(pattern)].map(([, status, type]) => `${status} ${type}`),
  );
  const listed = Object.entries(problems).map(([type, { status }]) => `${status} ${type}`);
  expect(listed.sort()).toEqual([...new Set(thrown)].sort());
});

it('the error catalogue calls an errno reserved if and only if no call returns it', () => {
  const returned = new Set(calls.flatMap((call) => Object.keys(call.errnos)));
  const reserved = Object.entries(errnos).flatMap(([name, { cause }]) => (cause.startsWith('reserved') ? [name] : []));
  expect(reserved).toEqual(errnoNames.filter((name) => !returned.has(name)));
});

it('docs/errors.md shows every row of the catalogue', () => {
  const rows = (heading: string, column = 0) => documented('docs/errors.md', heading, column);
  expect(rows('## Tool errors')).toEqual(Object.keys(toolErrors).sort());
  expect(rows('## Errors of a send')).toEqual(Object.keys(sendErrors).sort());
  expect(rows('## Errors of guest tools')).toEqual(Object.keys(guestToolErrors).sort());
  expect(rows('## Exclusion reasons')).toEqual(Object.keys(exclusions).sort());
  expect(rows('## HTTP problem types', 1)).toEqual(Object.keys(problems).sort());
  expect(rows('## Errnos')).toEqual([...errnoNames].sort());
});

it('docs/registry-protocol.md has every path of the HTTP side', () => {
  const page = readPage('docs/registry-protocol.md').text;
  const http = (sourceOf('registry/routes') + sourceOf('server/routes')).replaceAll(
    /\$\{ADMIN_PATH\}|\$\{servers\}/g,
    '',
  );
  for (const path of found(http, /path: [`'](\/[^`']+)[`']/g)) expect(page).toContain(path);
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
  const source = sourceOf('server/telemetry') + registryMetrics + sourceOf('run');
  const named = found(source, /'((?:mcp|spear)_[a-z_]+)',/g);
  const gauges = found(registryMetrics, /^ {2}(\w+): '[A-Z]/gm).map((name) => `spear_sms_${name}`);
  const page = prose(readPage('docs/metrics.md'));
  const listed = [...new Set(codesIn(page).filter((name) => /^(?:mcp|spear)_[a-z_]+$/.test(name)))];
  expect(listed.sort()).toEqual([...new Set([...named, ...gauges])].sort());
});
