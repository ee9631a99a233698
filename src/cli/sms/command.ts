import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { errorText } from '../../base/errors.ts';
import { ConfigError } from '../../config/config-error.ts';
import { stateDirectory } from '../../config/directories.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import {
  loadRegistryConfig,
  type RegistryConfig,
  type RegistryConfigFlags,
} from '../../config/registry/registry-config.ts';
import { DirectoryRefused, type RunningRegistry, startRegistry } from '../../registry/registry.ts';
import { openServiceLog, type ServiceLog } from '../../server/log/service-log.ts';
import { profileKind } from '../../server/records/profile.ts';
import { createSecretSource } from '../../server/secrets/secret-file.ts';
import {
  type DirectoryResult,
  describeProblem,
  loadDirectory,
  PROFILES_FOLDER,
} from '../../server/store/directory/directory.ts';
import { createMemoryStore, createMemoryStoreOf } from '../../server/store/local-store.ts';
import { openStore } from '../../server/store/open-store.ts';
import type { FlagValues, Run } from '../command-table.ts';
import { UsageError } from '../exit-codes.ts';
import type { ProgramOutput } from '../run-program.ts';
import { bounded, MAX_LISTED, outputOf } from '../say.ts';
import { backupRegistry, restoreRegistry } from './backup.ts';
import type { smsServeFlags } from './flags.ts';

const exitCodes = { ok: 0, failed: 1, usage: 2, refused: 3, interrupted: 130, terminated: 143 } as const;

type StoreFlags = Pick<ServeFlags, 'config' | 'data' | 'store' | 'insecureNoAuth'>;
type ServeFlags = FlagValues<typeof smsServeFlags>;

/** `spear-sms`, and `spear registry serve`. */
export const serveRegistry = reporting<ServeFlags>(async ({ flags, program }) => {
  const { dryRun: onlyLook, mcpRegistryDir, mcpDir, ...more } = flags;
  const load = () => loadConfig({ ...more, registryDir: mcpRegistryDir ?? mcpDir });
  return onlyLook ? dryRun(load(), outputOf(program.name)) : serve(load(), load);
});

export const backup = copying('backup', backupRegistry);
export const restore = copying('restore', restoreRegistry);

export const migrateTo = reporting<StoreFlags & { readonly from: string; readonly to: string }>(
  async ({ flags: { from, to, ...flags }, program }) => {
    const { migrate } = await import('./migrate.ts');
    const { say } = outputOf(program.name);
    for (const line of await migrate(from, to, smsFlags(flags), processEnvironment)) say(line);
    return exitCodes.ok;
  },
);

function copying(verb: string, copy: (config: RegistryConfig, file: string) => Promise<string>): Run<StoreFlags> {
  return reporting(async ({ flags, args: [file = ''], program }) => {
    const config = loadConfig(flags);
    if (config.etcd !== null) {
      throw new UsageError(`${verb} needs a registry in a file; copy etcd with "etcdctl snapshot save"`);
    }
    outputOf(program.name).say(await copy(config, file));
    return exitCodes.ok;
  });
}

type ConfigFlags = Partial<Omit<ServeFlags, 'dryRun' | 'mcpRegistryDir' | 'mcpDir'>> &
  Pick<RegistryConfigFlags, 'registryDir'>;

/** An absent boolean flag leaves the decision to the variable and the config file. */
const smsFlags = (flags: ConfigFlags): RegistryConfigFlags => ({
  ...flags,
  strict: flags.strict || undefined,
  allowMassRemoval: flags.allowMassRemoval || undefined,
  insecureNoAuth: flags.insecureNoAuth || undefined,
  allowPlaintextBeyondLoopback: flags.allowPlaintextBeyondLoopback || undefined,
});

const loadConfig = (flags: ConfigFlags) => loadRegistryConfig({ flags: smsFlags(flags), env: processEnvironment });

/** Prints errors that are not about usage or config, and maps them to exit codes. */
function reporting<Flags>(run: Run<Flags>): Run<Flags> {
  return async (call) => {
    try {
      return await run(call);
    } catch (error) {
      if (error instanceof UsageError || error instanceof ConfigError) throw error;
      for (const line of errorText(error).split('\n')) outputOf(call.program.name).say(line);
      return error instanceof DirectoryRefused ? exitCodes.refused : exitCodes.failed;
    }
  };
}

async function serve(config: RegistryConfig, readAgain: () => RegistryConfig): Promise<number> {
  const log = openServiceLog();
  const sms = await startRegistry(config, {
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

/** The first SIGINT or SIGTERM shuts down gracefully, the second at once; SIGHUP reloads tokens, certificate, approval rules and directory. */
function untilSignalled(sms: RunningRegistry, log: ServiceLog): Promise<void> {
  process.on('SIGHUP', () => {
    sms.reload().then(
      (result) => {
        if (result === null) log('info', 'no_directory', { message: 'no --mcp-registry-dir to reload' });
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

async function dryRun(config: RegistryConfig, output: ProgramOutput): Promise<number> {
  if (config.registryDir === null) throw new UsageError('--dry-run needs --mcp-registry-dir');
  // Do not create a registry only to look at it.
  const kept = config.etcd !== null || existsSync(config.files.data) ? await openStore(config, openServiceLog()) : null;
  const store = kept?.servers ?? createMemoryStore();
  const profiles = kept?.profiles ?? createMemoryStoreOf(profileKind);
  const folder = join(config.registryDir, PROFILES_FOLDER);
  const { strict, allowMassRemoval } = config;
  const options = { strict, dryRun: true, allowMassRemoval };
  try {
    const ofServers = await loadDirectory(store, config.registryDir, options);
    const ofProfiles = await loadDirectory(profiles, folder, { ...options, optional: true });
    showResult(config.registryDir, ofServers, '', output);
    showResult(folder, ofProfiles, 'profile ', output);
    const count = (of: (result: DirectoryResult) => number) => of(ofServers) + of(ofProfiles);
    const [changes, unchanged] = [count(({ plan }) => plan.changes.length), count(({ plan }) => plan.unchanged.length)];
    process.stdout.write(`${changes} changes, ${unchanged} unchanged\n`);
    return [ofServers, ofProfiles].some(({ outcome }) => outcome === 'refused') ? exitCodes.refused : exitCodes.ok;
  } finally {
    await kept?.close();
  }
}

/** Small plans in full, large ones as counts; problems up to a bound. */
function showResult(directory: string, result: DirectoryResult, prefix: string, { print, say }: ProgramOutput): void {
  const { problems, plan, refusal } = result;
  for (const line of bounded(problems.map((one) => `${one.severity}: ${describeProblem(directory, one)}`))) say(line);
  if (plan.changes.length <= MAX_LISTED) {
    for (const change of plan.changes) {
      const fields = change.action === 'update' ? ` (${change.fields.join(', ')})` : '';
      print(`${change.action} ${prefix}${change.id} from ${change.file}${fields}\n`);
    }
  } else {
    const count = (action: string) => `${plan.changes.filter((change) => change.action === action).length} ${action}`;
    print(`${prefix}${['create', 'update', 'delete'].map(count).join(', ')}\n`);
  }
  if (refusal !== null) say(`error: ${refusal}`);
}
