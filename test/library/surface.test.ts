import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import * as library from '../../src/index.ts';

const here = fileURLToPath(new URL('.', import.meta.url));

it('tests of the library know nothing of src/ but its index', () => {
  for (const file of readdirSync(here)) {
    const imports = [...readFileSync(`${here}/${file}`, 'utf8').matchAll(/from '([^']*src\/[^']*)'/g)];
    for (const [, path] of imports) expect(path, file).toBe('../../src/index.ts');
  }
});

it('has these values', () => {
  expect(Object.keys(library).sort()).toEqual([
    'BackendError',
    'ConfigError',
    'GuestThreads',
    'McpConnectionError',
    'McpError',
    'McpSchemaError',
    'McpTimeoutError',
    'McpToolError',
    'McpToolbox',
    'ModuleError',
    'ToolEvents',
    'compileLimits',
    'componentCacheDirectory',
    'createMetrics',
    'limitSpecs',
    'noAudit',
    'openAiBackend',
    'openAuditLog',
    'openMcp',
    'openTask',
    'runGuest',
    'runTask',
    'scriptedBackend',
    'serveMetrics',
    'stubBackend',
    'testJournals',
  ]);
});

it('still exports AuditTrail, the name of AuditSink in 0.2.0', () => {
  const old: library.AuditTrail = library.noAudit;
  const sink: library.AuditSink = old;
  expect(sink).toBe(library.noAudit);
});
