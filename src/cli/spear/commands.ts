import { nearestKey } from '../../base/nearest-key.ts';
import { UsageError } from '../usage-error.ts';
import type { OwnCommand, SpearCommand } from './command.ts';
import { approvalsHelp, nodesHelp, profilesHelp, serversHelp, spearHelp, tokensHelp } from './help.ts';

// Loaded when asked for: what one command needs costs the others start-up time.
export const commands: ReadonlyMap<string, () => Promise<SpearCommand>> = new Map([
  ['servers ls', async () => (await import('../servers/ls.ts')).listServers],
  ['servers get', async () => (await import('../servers/ls.ts')).getServer],
  ['servers apply', async () => (await import('../servers/apply.ts')).applyServers],
  ['servers rm', async () => (await import('../servers/rm.ts')).removeServers],
  ['servers test', async () => (await import('../servers/test.ts')).testRegisteredServer],
  ['servers pin', async () => (await import('../servers/pin.ts')).pinServer],
  ['servers unpin', async () => (await import('../servers/pin.ts')).unpinServer],
  ['servers login', async () => (await import('../servers/login.ts')).logInToServer],
  ['servers logout', async () => (await import('../servers/login.ts')).logOutOfServer],
  ['servers import', async () => (await import('../servers/import.ts')).importServers],
  ['servers export', async () => (await import('../servers/export.ts')).exportServers],
  ['profiles ls', async () => (await import('../profiles/ls.ts')).listProfiles],
  ['profiles get', async () => (await import('../profiles/ls.ts')).getProfile],
  ['profiles apply', async () => (await import('../profiles/apply.ts')).applyProfiles],
  ['profiles rm', async () => (await import('../servers/rm.ts')).removeProfiles],
  ['approvals ls', async () => (await import('../approvals/ls.ts')).listApprovals],
  ['approvals show', async () => (await import('../approvals/show.ts')).showApproval],
  ['approvals allow', async () => (await import('../approvals/decide.ts')).allowApproval],
  ['approvals deny', async () => (await import('../approvals/decide.ts')).denyApproval],
  ['approvals watch', async () => (await import('../approvals/watch.ts')).watchApprovals],
  ['tokens ls', async () => (await import('../tokens/ls.ts')).listTokens],
  ['tokens create', async () => (await import('../tokens/change.ts')).createToken],
  ['tokens rotate', async () => (await import('../tokens/change.ts')).rotateToken],
  ['tokens revoke', async () => (await import('../tokens/change.ts')).revokeToken],
  ['nodes ls', async () => (await import('../nodes/ls.ts')).listNodes],
]);

/** Commands that speak to no registry, or have flags of their own: they get what follows their name. */
export const ownCommands: ReadonlyMap<string, () => Promise<OwnCommand>> = new Map([
  ['audit', async () => (await import('../audit/command.ts')).auditCommand],
  ['doctor', async () => (await import('../doctor/command.ts')).doctorCommand],
  ['explain', async () => (await import('../doctor/explain-command.ts')).explainCommand],
  ['replay', async () => (await import('../journal/replay-command.ts')).replayCommand],
  ['journal', async () => (await import('../journal/command.ts')).journalCommand],
  ['test', async () => (await import('../test/command.ts')).testCommand],
  ['tasks', async () => (await import('../node/tasks-command.ts')).tasksCommand],
  ['run', async () => (await import('../node/run-command.ts')).runCommand],
  ['runs', async () => (await import('../node/runs-command.ts')).runsCommand],
  ['componentize', async () => (await import('../componentize/command.ts')).componentizeCommand],
]);

/** What a registry has, and the help about what can be done with it. */
const nouns: ReadonlyMap<string, string> = new Map([
  ['servers', serversHelp],
  ['profiles', profilesHelp],
  ['approvals', approvalsHelp],
  ['tokens', tokensHelp],
  ['nodes', nodesHelp],
]);

export function isCommand(word: string): boolean {
  return nouns.has(word) || ownCommands.has(word);
}

/** The help about a command, all of it without one. */
export async function helpOn([word, ...more]: readonly string[]): Promise<string | OwnCommand> {
  if (word === undefined) return spearHelp;
  const own = ownCommands.get(word);
  if (own) return own();
  const text = nouns.get(word);
  if (text === undefined) throw unknownCommand([word, ...more]);
  return text;
}

/** Nobody types a command for nothing: the one that was probably meant is named. */
export function unknownCommand([word = '', verb = '']: readonly string[]): UsageError {
  const meant = isCommand(word) ? word : nearestKey(word, [...nouns.keys(), ...ownCommands.keys(), 'version', 'help']);
  if (meant === undefined) {
    const known = [...commands.keys(), ...ownCommands.keys(), 'version', 'help'];
    return new UsageError(`there is no "${word}"; there are ${known.join(', ')}`);
  }
  if (!nouns.has(meant)) return new UsageError(`there is no "${word}"; did you mean "${meant}"?`);
  const verbs = [...commands.keys()].filter((name) => name.startsWith(`${meant} `));
  if (word === meant && verb === '') {
    return new UsageError(`spear ${word}: what to do with them? there are ${verbs.join(', ')}; spear help ${word}`);
  }
  const given = `${word} ${verb}`.trimEnd();
  const near = verb === '' ? meant : nearestKey(`${meant} ${verb}`, verbs);
  return new UsageError(
    `there is no "${given}"; ${near === undefined ? `there are ${verbs.join(', ')}` : `did you mean "${near}"?`}`,
  );
}
