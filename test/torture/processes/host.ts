// A host that is going to be killed: `node host.ts STATE_DIR SERVERS`. It says on stdout how far it is.
import childProcess, { type SpawnOptions } from 'node:child_process';
import { writeSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import type { McpToolbox, ToolboxServer } from '../../../src/agent/mcp/toolbox.ts';

/** After the first is connected. Servers that never speak are not waited for before all are closed. */
const CLOSE_AFTER_MS = 300;

const [stateDir = '', given = '[]'] = process.argv.slice(2);
const servers = JSON.parse(given) as ToolboxServer[];
const say = (stage: string) => writeSync(1, `${stage}\n`);

// Says that a server was spawned before anything else can be done about it.
const { spawn } = childProcess;
childProcess.spawn = ((command: string, args: readonly string[], options: SpawnOptions) => {
  const child = spawn(command, args, options);
  if (options.env?.MARKER !== undefined) say('spawned');
  return child;
}) as typeof spawn;
syncBuiltinESMExports();

// The library as it is installed: it starts three times sooner than its sources.
const library = (await import(new URL('../../../dist/index.js', import.meta.url).href)) as {
  McpToolbox: typeof McpToolbox;
};
setInterval(() => {}, 60_000);

say('connecting');
// One toolbox each: a server that cannot be connected says nothing about the others.
const toolboxes = servers.map((server) => new library.McpToolbox({ servers: [server], stateDir }));
const first = Promise.withResolvers<void>();
const used = Promise.allSettled(
  toolboxes.map(async (toolbox) => {
    await toolbox.connect();
    say('connected');
    first.resolve();
    for (const tool of toolbox.tools()) await tool.call({});
  }),
);
await Promise.race([used, first.promise.then(() => sleep(CLOSE_AFTER_MS))]);
say('closing');
await Promise.all(toolboxes.map((toolbox) => toolbox.disconnect()));
