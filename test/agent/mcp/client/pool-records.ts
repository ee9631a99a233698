import { fileURLToPath } from 'node:url';
import type { McpServerRecord } from '../../../../src/server/records/server.ts';
import { sampleRecord } from '../../../server/records/server-samples.ts';
import { eraEnvironment } from '../../../support/server-era.ts';

export const fixture = (name: string) =>
  fileURLToPath(new URL(`../../../../fixtures/mcp-servers/${name}`, import.meta.url));
export const npmServer = (name: string) =>
  fileURLToPath(
    new URL(`../../../../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url),
  );

/** A sandbox in which the servers of these tests run: records of a registry get no less. */
export const sandboxOf = (...more: string[]) => {
  const read = ['fixtures/mcp-servers', 'node_modules'].map((path) =>
    fileURLToPath(new URL(`../../../../${path}`, import.meta.url)),
  );
  return { mode: 'required', network: 'allow', read_only_paths: [...read, ...more] };
};

export interface StdioSample {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly budgets?: Readonly<Record<string, number>>;
  readonly sandbox?: Readonly<Record<string, unknown>>;
}

export function stdioRecord(id: string, script: string, sample: StdioSample = {}): McpServerRecord {
  const path = script.startsWith('/') ? script : fixture(script);
  const { args = [], env: given = {}, ...rest } = sample;
  const env = { ...eraEnvironment(), ...given };
  return sampleRecord(id, { stdio: { command: process.execPath, args: [path, ...args], env }, ...rest });
}

export function httpRecord(
  id: string,
  transport: 'streamable_http' | 'http_sse_legacy',
  url: string,
  fields: Record<string, unknown> = {},
  http: Record<string, unknown> = {},
): McpServerRecord {
  return sampleRecord(id, { transport, stdio: undefined, http: { url, ...http }, ...fields });
}
