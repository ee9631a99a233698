// A host that is going to be killed: connects to the servers named on its command line and prints what it started.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { McpPool } from '../../../../../src/agent/mcp/client/pool.ts';
import type { ToolOutput } from '../../../../../src/agent/mcp/client/tool-result.ts';
import { createSecretSource } from '../../../../../src/server/secrets/secret-file.ts';
import { fixture, type StdioSample, stdioRecord } from '../pool-records.ts';

const [stateDir = '', tmpDir = '', marker = '', mode = ''] = process.argv.slice(2);
const policy = { mode: 'user_owned', names: [], paths: [], backendKeyNames: [] } as const;
const pool = new McpPool(
  { stateDir, tmpDir },
  {
    secrets: createSecretSource(policy, {}),
    ...(mode === 'starting' ? { spawn: announced } : {}),
  },
);

/** Says that a server was spawned before the pool can do anything else. */
function announced(command: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  const child = spawn(command, args, options);
  if (options.env?.MARKER !== undefined) writeSync(1, 'spawned\n');
  return child;
}

async function text(id: string, script: string, tool: string, more: StdioSample = {}): Promise<string> {
  const record = stdioRecord(id, script, { env: { MARKER: marker }, ...more });
  const { json } = await new Promise<ToolOutput>((finished) =>
    pool.startCall(record, { tool, args: {}, owner: 'host', finished }),
  );
  return JSON.parse(json).content[0].text;
}

const pids = [
  ...JSON.parse(await text('stubborn', 'stubborn.mjs', 'pids')),
  Number(await text('tiny', 'tiny.mjs', 'pid')),
  Number(await text('parent', 'grandchild.mjs', 'start_held')),
  Number(await text('parent', 'grandchild.mjs', 'start_away')),
];
// Its processes have other numbers inside; they are found by what is in their environment.
const sandbox = { network: 'deny', read_only_paths: [dirname(fixture('stubborn.mjs'))] };
await text('boxed', 'stubborn.mjs', 'pids', { sandbox });
process.stdout.write(`${JSON.stringify(pids)}\n`);
setInterval(() => {}, 60_000);
