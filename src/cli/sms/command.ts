import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { errorText } from '../../base/error-text.ts';
import { version } from '../../base/version.ts';
import { visible } from '../../base/visible-text.ts';
import { stateDirectory } from '../../base/xdg-directories.ts';
import { ConfigError } from '../../config/config-error.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { loadSmsConfig, type SmsConfig } from '../../config/sms/sms-config.ts';
import { profileKind } from '../../protocol/profile-kind.ts';
import { knownSecrets } from '../../secrets/redactor.ts';
import { createSecretSource } from '../../secrets/secret-source.ts';
import { type DirectoryResult, describeProblem, loadDirectory, PROFILES_FOLDER } from '../../sms/directory.ts';
import { openServiceLog, type ServiceLog } from '../../sms/service-log.ts';
import { DirectoryRefused, type RunningSms, startSms } from '../../sms/sms.ts';
import { createMemoryStore, createMemoryStoreOf } from '../../sms/store/memory-store.ts';
import { openStore } from '../../sms/store/open-store.ts';
import { UsageError } from '../usage-error.ts';
import { backupRegistry, restoreRegistry } from './backup.ts';
import { parseSmsFlags, type SmsCommand } from './flags.ts';
import { smsHelp } from './help.ts';

const exitCodes = { ok: 0, failed: 1, usage: 2, refused: 3, interrupted: 130, terminated: 143 } as const;

const say = (text: string) => process.stderr.write(`spear-sms: ${visible(knownSecrets.redact(text))}\n`);

/** `spear-sms`: from the command line to an exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  try {
    const command = parseSmsFlags(argv);
    if (command === 'help') return print(smsHelp);
    if (command === 'version') return print(`spear-sms ${version}\n`);
    return await run(command);
  } catch (error) {
    const message = errorText(error);
    for (const line of message.split('\n')) say(line);
    if (error instanceof UsageError || error instanceof ConfigError) return exitCodes.usage;
    return error instanceof DirectoryRefused ? exitCodes.refused : exitCodes.failed;
  }
}

async function run(command: SmsCommand): Promise<number> {
  if (command.kind === 'migrate') {
    const { migrate } = await import('./migrate.ts');
    for (const line of await migrate(command.from, command.to, command.flags, processEnvironment)) say(line);
    return exitCodes.ok;
  }
  const config = loadSmsConfig({ flags: command.flags, env: processEnvironment });
  if (command.kind === 'serve') {
    const readAgain = () => loadSmsConfig({ flags: command.flags, env: processEnvironment });
    return command.dryRun ? dryRun(config) : serve(config, readAgain);
  }
  if (config.etcd !== null) {
    throw new UsageError(`${command.kind} is for a registry in a file: etcd copies itself (etcdctl snapshot save)`);
  }
  const copy = command.kind === 'backup' ? backupRegistry : restoreRegistry;
  say(await copy(config, command.file));
  return exitCodes.ok;
}

async function serve(config: SmsConfig, readAgain: () => SmsConfig): Promise<number> {
  const log = openServiceLog();
  const sms = await startSms(config, {
    log,
    readAgain,
    serverTest: {
      stateDir: stateDirectory(processEnvironment) ?? config.files.data,
      path: processEnvironment.PATH ?? '',
      secrets: createSecretSource({ mode: 'listed', names: [], paths: [], backendKeyNames: [] }, processEnvironment),
    },
  });
  const ended = untilSignalled(sms, log);
  const { data, adminToken, nodeToken } = config.files;
  log('info', 'ready', {
    ...(config.etcd === null ? { data } : { store: config.etcd.endpoints.join(','), prefix: config.etcd.prefix }),
    ...(config.auth ? { admin_token: adminToken, node_token: nodeToken } : { auth: 'none' }),
  });
  process.stdout.write(`${JSON.stringify({ grpc: sms.grpc, http: sms.http })}\n`);
  await ended;
  await sms.close();
  return exitCodes.ok;
}

/** The first SIGINT or SIGTERM ends it in good order, the second at once; SIGHUP reads tokens, certificate, rules about approvals and directory again. */
function untilSignalled(sms: RunningSms, log: ServiceLog): Promise<void> {
  process.on('SIGHUP', () => {
    sms.reload().then(
      (result) => {
        if (result === null) log('info', 'no_directory', { message: 'there is no --mcp-registry-dir to read again' });
      },
      (error: unknown) => log('error', 'reload_failed', { message: errorText(error) }),
    );
  });
  return new Promise((resolve) => {
    let asked = false;
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.on(signal, () => {
        if (asked) process.exit(signal === 'SIGINT' ? exitCodes.interrupted : exitCodes.terminated);
        asked = true;
        log('info', 'ending', { signal });
        resolve();
      });
    }
  });
}

async function dryRun(config: SmsConfig): Promise<number> {
  if (config.registryDir === null) throw new UsageError('--dry-run needs --mcp-registry-dir');
  // What is not there yet is not created only to be looked at.
  const kept = config.etcd !== null || existsSync(config.files.data) ? await openStore(config, openServiceLog()) : null;
  const store = kept ?? createMemoryStore();
  const profiles = kept?.profiles ?? createMemoryStoreOf(profileKind);
  const folder = join(config.registryDir, PROFILES_FOLDER);
  const { strict, allowMassRemoval } = config;
  const options = { strict, dryRun: true, allowMassRemoval };
  try {
    const ofServers = await loadDirectory(store, config.registryDir, options);
    const ofProfiles = await loadDirectory(profiles, folder, { ...options, optional: true });
    sayResult(config.registryDir, ofServers, '');
    sayResult(folder, ofProfiles, 'profile ');
    const count = (of: (result: DirectoryResult) => number) => of(ofServers) + of(ofProfiles);
    const [changes, unchanged] = [count(({ plan }) => plan.changes.length), count(({ plan }) => plan.unchanged.length)];
    process.stdout.write(`${changes} changes, ${unchanged} unchanged\n`);
    return [ofServers, ofProfiles].some(({ outcome }) => outcome === 'refused') ? exitCodes.refused : exitCodes.ok;
  } finally {
    await store.close();
  }
}

function sayResult(directory: string, { problems, plan, refusal }: DirectoryResult, prefix: string): void {
  for (const problem of problems) say(`${problem.severity}: ${describeProblem(directory, problem)}`);
  for (const change of plan.changes) {
    const fields = change.action === 'update' ? ` (${change.fields.join(', ')})` : '';
    process.stdout.write(`${change.action} ${prefix}${change.id} from ${change.file}${fields}\n`);
  }
  if (refusal !== null) say(`error: ${refusal}`);
}

function print(text: string): number {
  process.stdout.write(text);
  return exitCodes.ok;
}
