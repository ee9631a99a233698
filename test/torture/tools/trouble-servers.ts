import { fileURLToPath } from 'node:url';
import { referenceTo } from '../../../src/server/secrets/references.ts';

const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/mcp-servers/${path}`, import.meta.url));

/** Hangs at its start end after this time. */
const CONNECT_MS = 500;
const HOUR_MS = '3600000';

type Fields = Readonly<Record<string, unknown>>;

const server = (args: readonly string[], fields: Fields = {}): Fields => ({
  transport: 'stdio',
  stdio: { command: process.execPath, args },
  allowed_tools: ['*'],
  ...fields,
});

const tiny = fixture('tiny.mjs');
const half = `if (Math.random() < 0.5) process.exit(1); else await import(${JSON.stringify(tiny)});`;

/** A server, and whether a run may, must or cannot have its tools. Null: the registry does not know it. */
export interface TroubleServer {
  readonly id: string;
  readonly fields: Fields | null;
  readonly tools: 'always' | 'sometimes' | 'never';
}

const never = (id: string, fields: Fields | null): TroubleServer => ({ id, fields, tools: 'never' });

export const honest: TroubleServer = { id: 'good', fields: server([tiny]), tools: 'always' };

/** `slow`: those whose deadline no definition can shorten too. */
export const troubleServers = (slow: boolean): readonly TroubleServer[] => [
  never('crash_start', server(['-e', 'process.exit(1)'])),
  never('crash_list', server([fixture('lists.mjs'), 'killed'])),
  never('fails_list', server([fixture('lists.mjs'), 'fails'])),
  never('hang_start', server([fixture('mute.mjs')], { budgets: { connect_timeout_ms: CONNECT_MS } })),
  ...(slow ? [never('hang_list', server([fixture('lists.mjs'), 'slow', HOUR_MS]))] : []),
  never('missing', null),
  never('namespace', server([tiny], { namespaces: ['payments'] })),
  never('nothing', server([tiny], { allowed_tools: [] })),
  never('no_secret', {
    ...server([tiny]),
    stdio: { command: process.execPath, args: [tiny], env: { TOKEN: referenceTo('MCP_NOWHERE') } },
  }),
  // The sandbox shows it neither the program of this project nor a way around.
  never('sandboxed', server([tiny], { sandbox: { mode: 'required' } })),
  { id: 'flaky', fields: server(['--input-type=module', '-e', half], { connection_scope: 'run' }), tools: 'sometimes' },
];
