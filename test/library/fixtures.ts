import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { ToolboxServer } from '../../src/index.ts';

export const fixture = (path: string): string => fileURLToPath(new URL(`../../fixtures/${path}`, import.meta.url));

/** A folder of this test's own. */
export function folder(files: Readonly<Record<string, string | object>> = {}): string {
  const path = mkdtempSync(join(tmpdir(), 'spear-library-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(path, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
  return path;
}

/** A host config that names no model: nothing of this machine's user is read. */
export const emptyConfig = (): string => join(folder({ 'config.toml': '' }), 'config.toml');

/** A real, small MCP server. */
export const tiny = (more: Partial<ToolboxServer> = {}): ToolboxServer => ({
  name: 'tiny',
  transport: { kind: 'stdio', command: process.execPath, args: [fixture('mcp-servers/tiny.mjs')] },
  ...more,
});

/** The task of a guest that may use it. */
export const withTiny = {
  name: 'library',
  config: { 'mcp.enabled': true, 'mcp.default_server_ids': ['tiny'] },
};

/** What a guest says, by stream. */
export function collector() {
  const chunks = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  return {
    output: (stream: 'stdout' | 'stderr', bytes: Uint8Array) => void chunks[stream].push(bytes),
    text: (stream: 'stdout' | 'stderr' = 'stdout') => Buffer.concat(chunks[stream]).toString(),
  };
}
