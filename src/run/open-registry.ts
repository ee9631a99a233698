import { toldWhile, untold, type Waiting } from '../base/waiting.ts';
import { ConfigError } from '../config/config-error.ts';
import type { CompiledNodeMcp } from '../config/host/host-config.ts';
import { processEnvironment } from '../config/process-environment.ts';
import type { RecordIssue } from '../protocol/record.ts';
import { RegistryCache } from '../registry/cache.ts';
import type { ReportTarget } from '../registry/node-report.ts';
import type { ReferencePolicy } from '../secrets/reference-policy.ts';
import { describeProblem, loadDirectory } from '../sms/directory.ts';
import type { DirectoryProblem } from '../sms/directory-file.ts';
import { inProcessSource } from '../sms/store/in-process-source.ts';
import { createMemoryStore } from '../sms/store/memory-store.ts';

/** How long a run waits for its first snapshot before it goes on without. */
const FIRST_SNAPSHOT_MS = 5_000;

/** Where the records are to come from. */
export interface RegistryFlags {
  readonly mcpDir: string | undefined;
  /** Whether a file that is wrong refuses the whole directory. */
  readonly strict: boolean;
  readonly sms: string | undefined;
  readonly smsToken: string | undefined;
  readonly smsCa: string | undefined;
  readonly requireRegistry: boolean;
}

/** Where the records of a run come from. */
export interface RunRegistry {
  readonly cache: RegistryCache;
  /** What the records may refer to: the user's own files may use more than a registry that others write to. */
  readonly references: Pick<ReferencePolicy, 'mode' | 'names' | 'paths'>;
  /** Where to report what this node sees; null: nowhere. */
  readonly reports: ReportTarget | null;
  close(): Promise<void>;
}

/** Takes what is wrong with single records. */
export interface RecordProblems {
  readonly file: (directory: string, problem: DirectoryProblem) => void;
  readonly record: (serverId: string, issue: RecordIssue) => void;
}

/** Records that are wrong are said one by one, unless somebody wants them sorted. */
export async function openRunRegistry(
  flags: RegistryFlags,
  node: CompiledNodeMcp,
  say: (text: string) => void,
  problems: RecordProblems = {
    file: (directory, problem) => say(describeProblem(directory, problem)),
    record: (serverId, { path, message }) => say(`mcp ${serverId}: its record cannot be used: ${path} ${message}`),
  },
  waiting: Waiting = untold,
): Promise<RunRegistry> {
  if (flags.sms !== undefined && flags.mcpDir !== undefined) {
    throw new ConfigError('--sms and --mcp-dir: records come from one of them; leave the other out');
  }
  const registry =
    flags.sms === undefined ? await openDirectory(flags, say, problems) : await openSms(flags, node, say, problems);
  const { cache } = registry;
  cache.start();
  const first = {
    what: `the first records of the registry at ${flags.sms ?? flags.mcpDir}`,
    atMostMs: FIRST_SNAPSHOT_MS,
  };
  if (await toldWhile(waiting, first, cache.ready(FIRST_SNAPSHOT_MS))) return registry;
  const why = cache.status().lastError ?? `no answer within ${FIRST_SNAPSHOT_MS} ms`;
  if (flags.requireRegistry) {
    await registry.close();
    throw new ConfigError(`--require-registry: there is no registry: ${why}`);
  }
  say(`going on without MCP until the registry answers: ${why}`);
  return registry;
}

async function openDirectory(
  flags: RegistryFlags,
  say: (text: string) => void,
  told: RecordProblems,
): Promise<RunRegistry> {
  const store = createMemoryStore();
  const directory = flags.mcpDir;
  if (directory === undefined) say('the task has MCP on, but there is no registry: --mcp-dir or --sms names one');
  else {
    const { outcome, problems } = await loadDirectory(store, directory, { strict: flags.strict, dryRun: false }).catch(
      (error: unknown) => {
        throw new ConfigError(`--mcp-dir ${directory}: ${(error as Error).message}`);
      },
    );
    for (const problem of problems) told.file(directory, problem);
    if (outcome === 'refused') throw new ConfigError(`--mcp-dir ${directory}: --strict refuses the files above`);
  }
  const cache = new RegistryCache({ source: inProcessSource(store) });
  return {
    cache,
    references: { mode: 'user_owned', names: [], paths: [] },
    reports: null,
    close: async () => {
      await cache.close();
      await store.close();
    },
  };
}

async function openSms(
  flags: RegistryFlags,
  node: CompiledNodeMcp,
  say: (text: string) => void,
  told: RecordProblems,
): Promise<RunRegistry> {
  // gRPC is worth its loading time only to a run that uses it.
  const [{ findSmsNode }, { createRemoteSource }] = await Promise.all([
    import('../config/sms/client.ts'),
    import('../registry/remote-source.ts'),
  ]);
  const endpoint = findSmsNode({ sms: flags.sms, token: flags.smsToken, ca: flags.smsCa }, processEnvironment);
  const source = createRemoteSource({
    address: endpoint.url,
    token: endpoint.token?.reveal() ?? null,
    ca: endpoint.ca,
    onInvalidRecord: told.record,
  });
  const cache = new RegistryCache({ source, maxStalenessMs: node.maxStalenessMs });
  cache.onStatus(({ state, lastError }) => {
    if (state === 'degraded') say(`the registry is out of reach, its last records are used: ${lastError}`);
    if (state === 'stale') say('the records are older than mcp.max_staleness_ms: MCP is refused');
  });
  return {
    cache,
    references: { mode: 'listed', names: node.allowEnv, paths: node.allowFiles },
    reports: source,
    close: async () => {
      await cache.close();
      source.close();
    },
  };
}
