import { parse } from 'node:path';
import { ConfigError } from '../../config/config-error.ts';
import type { CompiledHostConfig } from '../../config/host/host-config.ts';
import { openRunRegistry, type RunRegistry } from '../../run/open-registry.ts';
import { nodeOptions } from '../../run/run-options.ts';
import type { TaskPolicy } from '../../runtime/port/policy-layers.ts';
import { describeProblem } from '../../server/store/directory/directory.ts';
import { bad, type DiagnosisFlags, type Finding, ok, skipped } from './finding.ts';

export interface DiagnosedRegistry {
  readonly finding: Finding;
  /** Null: there is no registry to open. */
  readonly registry: RunRegistry | null;
  /** Servers that are missing because their records are invalid; the finding says so. */
  readonly unusable: ReadonlySet<string>;
}

/** Opens the registry as a run would, and reports invalid records. */
export async function diagnoseRegistry(
  flags: DiagnosisFlags,
  host: CompiledHostConfig,
  task: TaskPolicy,
): Promise<DiagnosedRegistry> {
  const { directory, sms } = flags.registry;
  const source = sms === undefined ? `directory ${directory}` : `registry at ${sms.address}`;
  if (sms === undefined && directory === undefined) {
    const fix = 'set --mcp-dir to a directory of servers, or --sms to a running spear-sms';
    const finding = bad('registry', 'no registry is configured', { cause: 'no_registry', fix });
    return { registry: null, unusable: new Set(), finding };
  }
  const children: Finding[] = [];
  const unusable = new Set<string>();
  let registry: RunRegistry;
  try {
    registry = await openRunRegistry(
      { ...nodeOptions(host), ...flags.registry },
      {
        words: flags.words,
        say: () => {},
        profiles: task.profile !== null,
        problems: {
          file: (directory, problem) => {
            const text = describeProblem(directory, problem);
            const fix = `correct ${problem.file}; until then the file is ignored`;
            // The content is unreadable, so the id is guessed from the file name, which is usually the id.
            if (problem.severity === 'error') unusable.add(parse(problem.file).name);
            children.push(
              problem.severity === 'error'
                ? bad('record_file', text, { cause: 'bad_file', fix })
                : skipped('record_file', text),
            );
          },
          record: (serverId, { path, message }) => {
            const fix = `correct it: spear servers get ${serverId}`;
            unusable.add(serverId);
            const text = `the server ${serverId} cannot be used: ${path} ${message}`;
            children.push(bad('record', text, { cause: 'bad_record', fix }));
          },
          profile: (name, { path, message }) => {
            const text = `the profile ${name} cannot be used: ${path} ${message}`;
            const fix = `correct it: spear profiles get ${name}`;
            children.push(bad('record', text, { cause: 'bad_record', fix }));
          },
        },
      },
    );
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const fix = sms === undefined ? 'check the path of --mcp-dir' : 'check --sms, --sms-token-file and --sms-ca';
    return {
      registry: null,
      unusable,
      finding: bad('registry', error.message, { cause: 'registry_unreachable', fix, children }),
    };
  }
  const { state, revision, lastError } = registry.cache.status();
  const servers = registry.cache.snapshot()?.records.size ?? 0;
  if (revision === null) {
    const text = `${source} cannot be used: ${lastError ?? 'no response in time'}`;
    const fix = `${unreachableFix(lastError ?? '')}; until then runs continue without MCP`;
    return { registry, unusable, finding: bad('registry', text, { cause: 'registry_unreachable', fix, children }) };
  }
  const text = `${source}: revision ${revision}, ${servers} ${servers === 1 ? 'server' : 'servers'}, ${state}`;
  if (servers > 0) return { registry, unusable, finding: ok('registry', text, children) };
  const fix =
    sms === undefined
      ? 'add a server: one *.toml or *.json file per server, not in a subdirectory'
      : 'register a server (spear servers apply), or start spear-sms with --mcp-registry-dir DIR';
  const about = { cause: 'registry_empty', fix, children };
  return { registry, unusable, finding: bad('registry', `${text}: the registry is empty`, about) };
}

/** Fix for an error of the connection to the registry. */
function unreachableFix(error: string): string {
  if (/\[unauthenticated\]/.test(error)) {
    return 'the registry does not accept the token: set --sms-token-file to a copy of its current node.token';
  }
  if (/sockets\/grpc\.sock/.test(error)) {
    return 'the registry of this user is not running: start it with spear-sms';
  }
  if (/protocol error|HTTP\/1|ERR_HTTP2|NGHTTP2|other side closed|unimplemented|HTTP 4\d\d/i.test(error)) {
    return 'the peer does not speak gRPC: --sms takes the gRPC address (grpc in the line that spear-sms prints), not the HTTP address';
  }
  return 'is spear-sms running there? --sms takes its gRPC address, --sms-token-file a node token';
}

/** A token in a response of the registry's admin API. */
export interface ListedToken {
  readonly name: string;
  readonly namespace: string;
  readonly created_by: string;
  /** Approver rule that reserves the name, where an admin of one namespace made the token. Absent: an older registry. */
  readonly violates?: string | null;
}

/** Tokens that namespace admins created under names that an approver rule reserves: each is a vote they control. */
export function diagnoseTokens(tokens: readonly ListedToken[]): Finding {
  const children = tokens.flatMap(({ name, namespace, created_by, violates }) => {
    if (violates == null) return [];
    const text = `token "${name}" of the namespace "${namespace}", created by "${created_by}", has a name that the approver rule ${JSON.stringify(violates)} reserves`;
    const fix = `revoke it (spear tokens revoke ${name}), or create it again as an admin of all namespaces`;
    return [bad('token', text, { cause: 'reserved_name', fix })];
  });
  return ok('tokens', `${tokens.length} ${tokens.length === 1 ? 'token' : 'tokens'} of the registry`, children);
}
