import { approvalStatuses } from '../../protocol/approval.ts';
import { roles } from '../../protocol/people.ts';
import { command, type FlagValues, flag, number, type Run, text } from '../command-table.ts';
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

/** Imports the command and what talks to a registry. */
const registry =
  <Flags>(load: () => Promise<SpearCommand<Flags>>) =>
  async (): Promise<Run<Flags & FlagValues<typeof registryConnection>>> => {
    const [{ withRegistry }, run] = await Promise.all([import('./registry.ts'), load()]);
    return withRegistry(run);
  };

/** Commands that manage what a registry has. */
export const registryCommands = [
  command({
    path: 'spear servers ls',
    summary: 'list all servers and the health that nodes report.',
    flags: common,
    examples: ['spear servers ls', "spear servers ls --json | jq -r '.servers[].server_id'"],
    exitCodes,
    load: registry(async () => (await import('../servers/ls.ts')).listServers),
  }),
  command({
    path: 'spear servers get',
    summary: 'show one server and the reports of nodes about it.',
    args: 'ID',
    flags: common,
    examples: ['spear servers get fs'],
    exitCodes,
    load: registry(async () => (await import('../servers/ls.ts')).getServer),
  }),
  command({
    path: 'spear servers apply',
    summary: 'create or replace servers from files, all or none.',
    args: 'PATH...',
    description: ['PATH is a .toml or .json file, a directory of such files, or - for standard input.'],
    flags: common,
    examples: ['spear servers apply mcp.d/'],
    exitCodes,
    load: registry(async () => (await import('../servers/apply.ts')).applyServers),
  }),
  command({
    path: 'spear servers rm',
    summary: 'remove servers.',
    args: 'ID...',
    flags: common,
    examples: ['spear servers rm fs git'],
    exitCodes,
    load: registry(async () => (await import('../servers/rm.ts')).removeServers),
  }),
  command({
    path: 'spear servers test',
    summary: 'start a server on this machine, list its tools, stop it.',
    args: 'ID',
    flags: { 'allow-env': allowEnv, ...common },
    examples: ['spear servers test fs --allow-env GITLAB_TOKEN'],
    exitCodes,
    load: registry(async () => (await import('../servers/test.ts')).testRegisteredServer),
  }),
  command({
    path: 'spear servers pin',
    summary: 'compare current tool definitions with the pinned ones, and pin them.',
    args: 'ID [TOOL...]',
    description: ['Starts the server on this machine. Without TOOL, all allowed tools are compared.'],
    flags: { yes: yes('pin the definitions that are shown'), 'allow-env': allowEnv, ...common },
    examples: ['spear servers pin fs --yes'],
    exitCodes,
    load: registry(async () => (await import('../servers/pin.ts')).pinServer),
  }),
  command({
    path: 'spear servers unpin',
    summary: 'remove pins, so that the server may change these tools again.',
    args: 'ID [TOOL...]',
    flags: common,
    examples: ['spear servers unpin fs read_file'],
    exitCodes,
    load: registry(async () => (await import('../servers/pin.ts')).unpinServer),
  }),
  command({
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
      ...common,
    },
    examples: ['spear servers login tracker --mcp-dir mcp.d'],
    exitCodes,
    load: registry(async () => (await import('../servers/login.ts')).logInToServer),
  }),
  command({
    path: 'spear servers logout',
    summary: 'remove the stored login of a server from this machine.',
    args: 'ID',
    flags: common,
    examples: ['spear servers logout tracker'],
    exitCodes,
    load: registry(async () => (await import('../servers/login.ts')).logOutOfServer),
  }),
  command({
    path: 'spear servers import',
    summary: 'show what a file of many servers would change, and apply it.',
    args: 'FILE',
    flags: {
      yes: yes('apply the plan that is shown'),
      'dry-run': flag('only show the plan, even with --yes'),
      ...common,
    },
    examples: ['spear servers import servers.json --yes'],
    exitCodes,
    load: registry(async () => (await import('../servers/import.ts')).importServers),
  }),
  command({
    path: 'spear servers export',
    summary: 'print all servers as JSON, or write one .toml file per server to DIR.',
    args: '[DIR]',
    flags: {
      reveal: flag('write secret env and header values instead of ********; files are readable by their owner only'),
      ...common,
    },
    examples: ['spear servers export backup.d --reveal'],
    exitCodes,
    load: registry(async () => (await import('../servers/export.ts')).exportServers),
  }),
  command({
    path: 'spear profiles ls',
    summary: 'list all profiles.',
    flags: common,
    examples: ['spear profiles ls'],
    exitCodes,
    load: registry(async () => (await import('../profiles/ls.ts')).listProfiles),
  }),
  command({
    path: 'spear profiles get',
    summary: 'show one profile.',
    args: 'NAME',
    flags: common,
    examples: ['spear profiles get review'],
    exitCodes,
    load: registry(async () => (await import('../profiles/ls.ts')).getProfile),
  }),
  command({
    path: 'spear profiles apply',
    summary: 'create or replace profiles from files.',
    args: 'PATH...',
    description: ['PATH is a .toml or .json file, a directory of such files, or - for standard input.'],
    flags: common,
    examples: ['spear profiles apply profiles.d/'],
    exitCodes,
    load: registry(async () => (await import('../profiles/apply.ts')).applyProfiles),
  }),
  command({
    path: 'spear profiles rm',
    summary: 'remove profiles.',
    args: 'NAME...',
    flags: common,
    examples: ['spear profiles rm review'],
    exitCodes,
    load: registry(async () => (await import('../servers/rm.ts')).removeProfiles),
  }),
  command({
    path: 'spear approvals ls',
    summary: 'list approval requests.',
    flags: {
      status: text('STATUS', `${approvalStatuses.join(', ')} or all`, {
        choices: [...approvalStatuses, 'all'],
        default: 'waiting',
      }),
      ...common,
    },
    examples: ['spear approvals ls', 'spear approvals ls --status all'],
    exitCodes,
    load: registry(async () => (await import('../approvals/ls.ts')).listApprovals),
  }),
  command({
    path: 'spear approvals show',
    summary: 'show one request: arguments, tool definition and votes.',
    args: 'ID',
    description: PREFIX,
    flags: { full: flag('show long values and credentials in full; the audit log records it'), ...common },
    examples: ['spear approvals show 3f9a'],
    exitCodes,
    load: registry(async () => (await import('../approvals/show.ts')).showApproval),
  }),
  command({
    path: 'spear approvals allow',
    summary: 'allow a tool call.',
    args: 'ID',
    description: PREFIX,
    flags: {
      session: flag('allow this tool for the rest of its session, with any arguments'),
      reason: reason('reason, for the audit log'),
      ...common,
    },
    examples: ['spear approvals allow 3f9a --reason checked'],
    exitCodes,
    load: registry(async () => (await import('../approvals/decide.ts')).allowApproval),
  }),
  command({
    path: 'spear approvals deny',
    summary: 'deny a tool call.',
    args: 'ID',
    description: PREFIX,
    flags: { reason: reason('reason, which the model sees'), ...common },
    examples: ['spear approvals deny 3f9a --reason "ask in the morning"'],
    exitCodes,
    load: registry(async () => (await import('../approvals/decide.ts')).denyApproval),
  }),
  command({
    path: 'spear approvals watch',
    summary: 'print requests and decisions as they happen, until Ctrl-C.',
    flags: common,
    examples: ['spear approvals watch'],
    exitCodes,
    load: registry(async () => (await import('../approvals/watch.ts')).watchApprovals),
  }),
  command({
    path: 'spear tokens ls',
    summary: 'list all tokens with roles, namespace and last use.',
    flags: common,
    examples: ['spear tokens ls'],
    exitCodes,
    load: registry(async () => (await import('../tokens/ls.ts')).listTokens),
  }),
  command({
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
      ...common,
    },
    examples: [
      'spear tokens create ci --role operator --expires 90d -o ci.token',
      'spear tokens create alice --role viewer --role approver --namespace team-a',
    ],
    exitCodes,
    load: registry(async () => (await import('../tokens/change.ts')).createToken),
  }),
  command({
    path: 'spear tokens rotate',
    summary: 'replace a token; the old one stays valid for a while.',
    args: 'NAME',
    flags: {
      overlap: text('TIME', 'how long the old token stays valid; 0s: not at all', { fallback: '24h' }),
      out,
      ...common,
    },
    examples: ['spear tokens rotate ci --overlap 1h -o ci.token'],
    exitCodes,
    load: registry(async () => (await import('../tokens/change.ts')).rotateToken),
  }),
  command({
    path: 'spear tokens revoke',
    summary: 'revoke a token at once.',
    args: 'NAME',
    flags: common,
    examples: ['spear tokens revoke ci'],
    exitCodes,
    load: registry(async () => (await import('../tokens/change.ts')).revokeToken),
  }),
  command({
    path: 'spear nodes ls',
    summary: 'list the nodes that reported recently.',
    flags: common,
    examples: ['spear nodes ls'],
    exitCodes,
    load: registry(async () => (await import('../nodes/ls.ts')).listNodes),
  }),
];
