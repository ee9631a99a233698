import { approvalStatuses } from '../../server/records/approval.ts';
import { roles } from '../../server/records/permissions.ts';
import {
  type CommandTexts,
  command,
  type FlagSpecs,
  type FlagValues,
  flag,
  number,
  type Run,
  text,
} from '../command-table.ts';
import type { SpearCommand } from './command.ts';
import { registryConnection } from './flags.ts';

const json = flag('print one JSON value instead of text');
const yes = (help: string) => flag(help, { short: 'y' });

/** Flags of every command of this table. */
const common = { json, ...registryConnection };

const allowEnv = text('NAME', 'environment variable of yours that the server may use, in addition to MCP_*', {
  multiple: true,
});
const out = text('FILE', 'write the token to a file readable by its owner only, instead of stdout', { short: 'o' });
const reason = (help: string) => text('TEXT', help);

const exitCodes = {
  0: 'done',
  1: 'not found, invalid, failed, or refused by the registry',
  2: 'invalid command line or config',
  3: 'registry unreachable',
  4: 'no token, or the token lacks permission',
};

const PREFIX = ['ID may be any unambiguous prefix.'];

const NODE = ['NODE is a machine as in "spear nodes ls", or MACHINE:NAME for one node of it.'];
const TASK = ['TASK is NAME, or NAMESPACE/NAME.'];

/** A command that talks to a registry: adds what all of them share. */
const entry = <const Flags extends FlagSpecs = Record<never, never>>({
  flags = {} as Flags,
  load,
  ...texts
}: Omit<CommandTexts, 'exitCodes'> & {
  readonly flags?: Flags;
  readonly load: () => Promise<SpearCommand<FlagValues<Flags & typeof common>>>;
}) =>
  command({
    ...texts,
    flags: { ...flags, ...common },
    exitCodes,
    load: async () => {
      const [{ withRegistry }, run] = await Promise.all([import('./registry.ts'), load()]);
      return withRegistry(run) as unknown as Run<FlagValues<Flags & typeof common>>;
    },
  });

/** Commands that manage what a registry has. */
export const registryCommands = [
  entry({
    path: 'spear servers ls',
    summary: 'list all servers and the health that nodes report.',
    examples: ['spear servers ls', "spear servers ls --json | jq -r '.servers[].server_id'"],
    load: async () => (await import('../registry/servers.ts')).listServers,
  }),
  entry({
    path: 'spear servers get',
    summary: 'show one server and the reports of nodes about it.',
    args: 'ID',
    examples: ['spear servers get fs'],
    load: async () => (await import('../registry/servers.ts')).getServer,
  }),
  entry({
    path: 'spear servers apply',
    summary: 'create or replace servers from files, all or none.',
    args: 'PATH...',
    description: ['PATH is a .toml or .json file, a directory of such files, or - for standard input.'],
    examples: ['spear servers apply mcp.d/'],
    load: async () => (await import('../registry/servers.ts')).applyServers,
  }),
  entry({
    path: 'spear servers rm',
    summary: 'remove servers.',
    args: 'ID...',
    examples: ['spear servers rm fs git'],
    load: async () => (await import('../registry/servers.ts')).removeServers,
  }),
  entry({
    path: 'spear servers test',
    summary: 'start a server on this machine, list its tools, stop it.',
    args: 'ID',
    flags: { 'allow-env': allowEnv },
    examples: ['spear servers test fs --allow-env GITLAB_TOKEN'],
    load: async () => (await import('../registry/server-test.ts')).testRegisteredServer,
  }),
  entry({
    path: 'spear servers pin',
    summary: 'compare current tool definitions with the pinned ones, and pin them.',
    args: 'ID [TOOL...]',
    description: ['Starts the server on this machine. Without TOOL, all allowed tools are compared.'],
    flags: { yes: yes('pin the definitions that are shown'), 'allow-env': allowEnv },
    examples: ['spear servers pin fs --yes'],
    load: async () => (await import('../registry/server-pins.ts')).pinServer,
  }),
  entry({
    path: 'spear servers unpin',
    summary: 'remove pins, so that the server may change these tools again.',
    args: 'ID [TOOL...]',
    examples: ['spear servers unpin fs read_file'],
    load: async () => (await import('../registry/server-pins.ts')).unpinServer,
  }),
  entry({
    path: 'spear servers login',
    summary: 'log in to a server with OAuth in the browser, for your runs on this machine.',
    args: 'ID',
    flags: {
      'no-browser': flag('only print the address'),
      'mcp-dir': text('DIR', 'take the server from this directory instead of the registry'),
      port: number('PORT', 'loopback port of the redirect, for a client that was registered with one', {
        min: 1,
        max: 65_535,
        fallback: 'any free port',
      }),
      'allow-env': allowEnv,
    },
    examples: ['spear servers login tracker --mcp-dir mcp.d'],
    load: async () => (await import('../registry/server-login.ts')).logInToServer,
  }),
  entry({
    path: 'spear servers logout',
    summary: 'remove the stored login of a server from this machine.',
    args: 'ID',
    examples: ['spear servers logout tracker'],
    load: async () => (await import('../registry/server-login.ts')).logOutOfServer,
  }),
  entry({
    path: 'spear servers import',
    summary: 'show what a file of many servers would change, and apply it.',
    args: 'FILE',
    flags: {
      yes: yes('apply the plan that is shown'),
      'dry-run': flag('only show the plan, even with --yes'),
    },
    examples: ['spear servers import servers.json --yes'],
    load: async () => (await import('../registry/servers.ts')).importServers,
  }),
  entry({
    path: 'spear servers export',
    summary: 'print all servers as JSON, or write one .toml file per server to DIR.',
    args: '[DIR]',
    flags: {
      reveal: flag('write secret env and header values instead of ********; files are readable by their owner only'),
    },
    examples: ['spear servers export backup.d --reveal'],
    load: async () => (await import('../registry/servers.ts')).exportServers,
  }),
  entry({
    path: 'spear profiles ls',
    summary: 'list all profiles.',
    examples: ['spear profiles ls'],
    load: async () => (await import('../registry/profiles.ts')).listProfiles,
  }),
  entry({
    path: 'spear profiles get',
    summary: 'show one profile.',
    args: 'NAME',
    examples: ['spear profiles get review'],
    load: async () => (await import('../registry/profiles.ts')).getProfile,
  }),
  entry({
    path: 'spear profiles apply',
    summary: 'create or replace profiles from files.',
    args: 'PATH...',
    description: ['PATH is a .toml or .json file, a directory of such files, or - for standard input.'],
    examples: ['spear profiles apply profiles.d/'],
    load: async () => (await import('../registry/profiles.ts')).applyProfiles,
  }),
  entry({
    path: 'spear profiles rm',
    summary: 'remove profiles.',
    args: 'NAME...',
    examples: ['spear profiles rm review'],
    load: async () => (await import('../registry/servers.ts')).removeProfiles,
  }),
  entry({
    path: 'spear approvals ls',
    summary: 'list approval requests.',
    flags: {
      status: text('STATUS', `${approvalStatuses.join(', ')} or all`, {
        choices: [...approvalStatuses, 'all'],
        default: 'waiting',
      }),
    },
    examples: ['spear approvals ls', 'spear approvals ls --status all'],
    load: async () => (await import('../registry/approvals.ts')).listApprovals,
  }),
  entry({
    path: 'spear approvals show',
    summary: 'show one request: arguments, tool definition and votes.',
    args: 'ID',
    description: PREFIX,
    flags: { full: flag('show long values and credentials in full; the audit log records it') },
    examples: ['spear approvals show 3f9a'],
    load: async () => (await import('../registry/approvals.ts')).showApproval,
  }),
  entry({
    path: 'spear approvals allow',
    summary: 'allow a tool call.',
    args: 'ID',
    description: PREFIX,
    flags: {
      session: flag('allow this tool for the rest of its session, with any arguments'),
      yes: yes('allow arguments that the normal view cuts or masks; they are shown in full first'),
      reason: reason('reason, for the audit log'),
    },
    examples: ['spear approvals allow 3f9a --reason checked'],
    load: async () => (await import('../registry/approvals.ts')).allowApproval,
  }),
  entry({
    path: 'spear approvals deny',
    summary: 'deny a tool call.',
    args: 'ID',
    description: PREFIX,
    flags: { reason: reason('reason, which the model sees') },
    examples: ['spear approvals deny 3f9a --reason "ask in the morning"'],
    load: async () => (await import('../registry/approvals.ts')).denyApproval,
  }),
  entry({
    path: 'spear approvals watch',
    summary: 'print requests and decisions as they happen, until Ctrl-C.',
    examples: ['spear approvals watch'],
    load: async () => (await import('../registry/approvals.ts')).watchApprovals,
  }),
  entry({
    path: 'spear tokens ls',
    summary: 'list all tokens with roles, namespace and last use.',
    examples: ['spear tokens ls'],
    load: async () => (await import('../registry/tokens.ts')).listTokens,
  }),
  entry({
    path: 'spear tokens create',
    summary: 'create a token and print it once.',
    args: 'NAME',
    flags: {
      role: text('ROLE', roles.join(', '), { choices: roles, multiple: true, required: true }),
      namespace: text('NAME', 'the only namespace the token may use, or * for all', { fallback: 'your own' }),
      journals: flag('allow reading journals'),
      expires: text('TIME', 'lifetime such as 90d, 12h, 30m', { fallback: 'unlimited' }),
      description: text('TEXT', 'description in lists'),
      out,
    },
    examples: [
      'spear tokens create ci --role operator --expires 90d -o ci.token',
      'spear tokens create alice --role viewer --role approver --namespace team-a',
    ],
    load: async () => (await import('../registry/tokens.ts')).createToken,
  }),
  entry({
    path: 'spear tokens rotate',
    summary: 'replace a token; the old one stays valid for a while.',
    args: 'NAME',
    flags: {
      overlap: text('TIME', 'how long the old token stays valid; 0s: not at all', { fallback: '24h' }),
      out,
    },
    examples: ['spear tokens rotate ci --overlap 1h -o ci.token'],
    load: async () => (await import('../registry/tokens.ts')).rotateToken,
  }),
  entry({
    path: 'spear tokens revoke',
    summary: 'revoke a token at once.',
    args: 'NAME',
    examples: ['spear tokens revoke ci'],
    load: async () => (await import('../registry/tokens.ts')).revokeToken,
  }),
  entry({
    path: 'spear nodes ls',
    summary: 'list the nodes that reported recently.',
    examples: ['spear nodes ls'],
    load: async () => (await import('../registry/nodes.ts')).listNodes,
  }),
  entry({
    path: 'spear nodes cordon',
    summary: 'start no more runs on a node; running runs continue.',
    args: 'NODE',
    description: NODE,
    flags: { reason: reason('reason, which users of queued runs see') },
    examples: ['spear nodes cordon worker-3 --reason "kernel update"'],
    load: async () => (await import('../registry/stops.ts')).cordonNode,
  }),
  entry({
    path: 'spear nodes drain',
    summary: 'start no more runs on a node, and return its running runs to the queue.',
    args: 'NODE',
    description: NODE,
    flags: { reason: reason('reason, which users of queued runs see') },
    examples: ['spear nodes drain worker-3 --reason "kernel update"'],
    load: async () => (await import('../registry/stops.ts')).drainNode,
  }),
  entry({
    path: 'spear nodes uncordon',
    summary: 'let a cordoned or drained node start runs again.',
    args: 'NODE',
    description: NODE,
    examples: ['spear nodes uncordon worker-3'],
    load: async () => (await import('../registry/stops.ts')).uncordonNode,
  }),
  entry({
    path: 'spear tasks pause',
    summary: 'start no more runs of a task; running runs continue.',
    args: 'TASK',
    description: TASK,
    flags: { reason: reason('reason, which users of queued runs see') },
    examples: ['spear tasks pause team-a/report --reason "bad release"'],
    load: async () => (await import('../registry/stops.ts')).pauseTask,
  }),
  entry({
    path: 'spear tasks resume',
    summary: 'start runs of a paused task again.',
    args: 'TASK',
    description: TASK,
    examples: ['spear tasks resume team-a/report'],
    load: async () => (await import('../registry/stops.ts')).resumeTask,
  }),
  entry({
    path: 'spear stop',
    summary: 'refuse calls and park runs at once, everywhere; without flags, list active stops.',
    description: [
      'The registry stores the stop and pushes it to all nodes. Nodes that do not confirm are listed (exit code 1).',
      'Calls to a stopped server are refused; runs are parked only by --all, --namespace and --task.',
    ],
    flags: {
      all: flag('stop everything'),
      namespace: text('NAME', 'stop the calls and runs of a namespace'),
      task: text('TASK', 'stop the calls and runs of a task: NAME, or NAMESPACE/NAME'),
      server: text('ID', 'stop calls to an MCP server'),
      reason: reason('why; users whose runs are stopped see it (required)'),
      cancel: flag('also cancel the runs'),
      lift: text('ID', 'lift an active stop; parked runs resume'),
    },
    examples: [
      'spear stop --namespace team-a --reason "incident 12"',
      'spear stop --all --reason "leaked key" --cancel',
      'spear stop',
      'spear stop --lift 3f9a12bc',
    ],
    load: async () => (await import('../registry/stops.ts')).stop,
  }),
];
